// Models made smaller: what goes, what stays, and that answers are the same.
#include "convert/optimize.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/check_inference.h"
#include "engine/session.h"
#include "measure/compare/comparison.h"
#include "onnx/reader.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;

StoredTensor Ints(const char* name, std::vector<int64_t> values) {
  return MakeStored(name, Tensor::FromVector(values));
}

std::vector<std::string> OpsOf(const Model& model) {
  std::vector<std::string> ops;
  for (const Node& node : model.graph.nodes) ops.push_back(node.op_type);
  return ops;
}

using Ops = std::vector<std::string>;

TEST(Optimize, RemovesWhatPassesItsInputOn) {
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), 4})},
      {MakeNode("Identity", {"x"}, {"a"}), MakeNode("Cast", {"a"}, {"b"}, {Attribute("to", int64_t{1})}),
       MakeNode("Dropout", {"b"}, {"c"}),
       MakeNode("Transpose", {"c"}, {"d"}, {Attribute("perm", std::vector<int64_t>{0, 1})}),
       MakeNode("Concat", {"d"}, {"e"}, {Attribute("axis", int64_t{0})}), MakeNode("Mul", {"e", "one"}, {"f"}),
       MakeNode("Relu", {"f"}, {"g"}), MakeNode("Identity", {"g"}, {"y"})},
      {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 4})}, {MakeStored("one", Tensor::Scalar(1.0f))});
  const OptimizedModel made = OptimizeModel(model);
  EXPECT_EQ(OpsOf(made.model), Ops{"Relu"});
  EXPECT_EQ(made.model.graph.nodes[0].outputs[0], "y");
  EXPECT_EQ(made.nodes_before, 8u);
  EXPECT_EQ(made.nodes_after, 1u);
  EXPECT_TRUE(made.model.graph.initializers.empty());
}

TEST(Optimize, KeepsWhatOnlyLooksLikeNothing) {
  const Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 4})},
                {MakeNode("Slice", {"x", "start", "end", "axes", "back"}, {"a"}),  // turns rows around
                 MakeNode("Pad", {"a", "pads"}, {"b"}),                            // moves by one column
                 MakeNode("Mul", {"b", "ones"}, {"c"}),                            // adds an axis
                 MakeNode("Cast", {"c"}, {"y"}, {Attribute("to", int64_t{11})})},
                {MakeInfo("y", DType::kDouble)},
                {Ints("start", {-1}), Ints("end", {-9}), Ints("axes", {1}), Ints("back", {-1}),
                 Ints("pads", {0, 1, 0, -1}), MakeStored("ones", Tensor::FromVector<float>({1.0f}, {1, 1, 1}))});
  EXPECT_EQ(OpsOf(OptimizeModel(model).model), (Ops{"Slice", "Pad", "Mul", "Cast"}));
}

TEST(Optimize, WeightsInFewerBitsStaySo) {
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), 4, 6})},
      {MakeNode("DequantizeLinear", {"codes", "scale"}, {"w"}), MakeNode("Reshape", {"w", "shape"}, {"v"}),
       MakeNode("Conv", {"x", "v"}, {"c"}), MakeNode("Cast", {"half"}, {"wide"}, {Attribute("to", int64_t{1})}),
       MakeNode("MatMul", {"c", "wide"}, {"y"})},
      {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 2, 32})},
      {MakeStored("codes", Tensor::Zeros(DType::kInt8, {2, 4})), MakeStored("scale", Tensor::Scalar(0.5f)),
       Ints("shape", {2, 4, 1}), MakeStored("half", Tensor::Zeros(DType::kFloat16, {6, 32}))},
      17);
  EXPECT_EQ(OpsOf(OptimizeModel(model).model), (Ops{"DequantizeLinear", "Reshape", "Conv", "Cast", "MatMul"}));
}

// What is computed from the sizes of a layer's result has nothing of the layer's weights in it.
TEST(Optimize, SizesBehindWeightsInFewerBitsAreFolded) {
  const Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {4, 4}), MakeInfo("z", DType::kFloat, {2, 4})},
                {MakeNode("DequantizeLinear", {"codes", "scale"}, {"w"}), MakeNode("MatMul", {"x", "w"}, {"h"}),
                 MakeNode("Shape", {"h"}, {"all"}), MakeNode("Slice", {"all", "first", "second"}, {"rows"}),
                 MakeNode("Concat", {"rows", "rest"}, {"shape"}, {Attribute("axis", int64_t{0})}),
                 MakeNode("Reshape", {"z", "shape"}, {"r"}), MakeNode("Shape", {"w"}, {"weights"}),
                 MakeNode("Reshape", {"h", "weights"}, {"y"})},
                {MakeInfo("r", DType::kFloat, {4, 2}), MakeInfo("y", DType::kFloat, {4, 4})},
                {MakeStored("codes", Tensor::Zeros(DType::kInt8, {4, 4})), MakeStored("scale", Tensor::Scalar(0.5f)),
                 Ints("first", {0}), Ints("second", {1}), Ints("rest", {-1})},
                17);
  EXPECT_EQ(OpsOf(OptimizeModel(model).model),
            (Ops{"DequantizeLinear", "MatMul", "Reshape"}));  // the second changes nothing
}

TEST(Optimize, FixedSizesTurnShapeArithmeticIntoConstants) {
  const Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("batch"), 2, 6})},
                {MakeNode("Shape", {"x"}, {"s"}), MakeNode("Gather", {"s", "zero"}, {"n"}),
                 MakeNode("Unsqueeze", {"n", "first"}, {"n1"}),
                 MakeNode("Concat", {"n1", "rest"}, {"shape"}, {Attribute("axis", int64_t{0})}),
                 MakeNode("Reshape", {"x", "shape"}, {"y"})},
                {MakeInfo("y", DType::kFloat, {Dim::Named("batch"), 12})},
                {MakeStored("zero", Tensor::Scalar<int64_t>(0)), Ints("first", {0}), Ints("rest", {12})});
  EXPECT_EQ(OptimizeModel(model).nodes_after, 5u);
  const OptimizedModel made = OptimizeModel(model, {{{"batch", 3}}});
  EXPECT_EQ(OpsOf(made.model), Ops{"Reshape"});
  EXPECT_EQ(*made.model.graph.inputs[0].type.shape->front().value, 3);
  EXPECT_EQ(*made.model.graph.outputs[0].type.shape->front().value, 3);
  EXPECT_THROW(OptimizeModel(model, {{{"batsch", 3}}}), Error);
  EXPECT_THROW(OptimizeModel(model, {{{"batch", -3}}}), Error);
}

// As many nodes as before or fewer, the same opset, valid, and PyTorch's answers.
TEST(Optimize, NetworksKeepTheirAnswers) {
  namespace fs = std::filesystem;
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(FERRY_TEST_DATA "/torch-models")) {
    const std::string path = (entry.path() / "torch.onnx").string();
    if (!fs::exists(path)) continue;
    const Model model = ReadModel(path);
    OptimizedModel made = OptimizeModel(model);
    EXPECT_LE(made.nodes_after, made.nodes_before) << path;
    EXPECT_EQ(made.model.OpsetOf(""), model.OpsetOf("")) << path;
    for (const Problem& problem : CheckFully(made.model))
      EXPECT_NE(problem.severity, Severity::kError) << path << ": " << problem.message;
    const Side side = Side::FromModel(std::move(made.model), {path});
    std::vector<Sample> samples;
    for (const std::string& recording : FindRecordings({entry.path().string()}))
      samples.push_back(ReadSample(recording, side.session()));
    EXPECT_TRUE(CompareWithRecordings(side, samples, {.tolerance = {1e-3, 1e-4}}).within()) << path;
    ++count;
  }
  EXPECT_GE(count, 25u);
}

// Whoever runs the model may give another value for an input with a default.
TEST(Optimize, DefaultsOfInputsAreNotFolded) {
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {2}), MakeInfo("s", DType::kFloat, {2}), MakeInfo("shape", DType::kInt64, {1})},
      {MakeNode("Mul", {"s", "two"}, {"s2"}), MakeNode("Add", {"x", "s2"}, {"a"}),
       MakeNode("Reshape", {"a", "shape"}, {"y"})},
      {MakeInfo("y", DType::kFloat, {Dim()})},
      {MakeStored("s", Tensor::FromVector<float>({1, 1})), MakeStored("two", Tensor::FromVector<float>({2})),
       Ints("shape", {2})});
  EXPECT_EQ(OpsOf(OptimizeModel(model).model), (Ops{"Mul", "Add", "Reshape"}));
}

}  // namespace
}  // namespace ferry
