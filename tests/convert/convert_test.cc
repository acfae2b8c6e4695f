#include "convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/directory.h"
#include "base/error.h"
#include "engine/check_inference.h"
#include "engine/session.h"
#include "measure/difference.h"
#include "measure/randomness.h"
#include "measure/test_case.h"
#include "onnx/reader.h"
#include "onnx/value_file.h"
#include "tensor/npz.h"
#include "tests/support/codecs.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

constexpr Tolerance kClose{.rtol = 2e-4, .atol = 2e-6};
const SessionOptions kOneThread{.threads = 1};

std::string Data(const std::string& name) { return std::string(FERRY_TEST_DATA) + "/" + name; }

// Empty when both models give the same for the inputs.
std::string ExplainDifference(const Model& model, const Model& converted, const std::vector<NamedValue>& inputs) {
  std::vector<Value> expected = Session::FromModel(CopyDeep(model), kOneThread)->Run(inputs);
  std::vector<Value> actual = Session::FromModel(CopyDeep(converted), kOneThread)->Run(inputs);
  auto random = FindRandomValues(model);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (random.count(model.graph.outputs[i].name)) continue;
    std::string reason = Compare(actual.at(i), expected[i], kClose).Explain();
    if (!reason.empty()) return Cat(model.graph.outputs[i].name, ": ", reason);
  }
  return {};
}

std::vector<NamedValue> RecordedInputs(const Model& model, const std::string& path) {
  std::vector<NamedValue> inputs;
  for (const auto& [name, tensor] : ReadNpz(path))
    if (name.rfind("in", 0) == 0) {
      size_t i = static_cast<size_t>(std::stoi(name.substr(2)));
      if (i < model.graph.inputs.size()) inputs.emplace_back(model.graph.inputs[i].name, Value(tensor));
    }
  return inputs;
}

// Every network is written for every opset from 11 on and gives the same answers.
TEST(Convert, EveryNetworkFromElevenOn) {
  int converted = 0;
  for (const std::string& name : ListDirectory(Data("torch-models"))) {
    std::string folder = Data("torch-models/" + name);
    if (!IsFile(folder + "/torch.onnx")) continue;
    Model model = ReadModel(folder + "/torch.onnx");
    std::vector<NamedValue> inputs = RecordedInputs(model, folder + "/io_2.npz");
    for (int64_t target : {11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 23, 24, 28}) {
      SCOPED_TRACE(Cat(name, " to opset ", target));
      Model other;
      ASSERT_NO_THROW(other = ConvertOpset(model, target));
      EXPECT_EQ(other.OpsetOf(""), target);
      EXPECT_FALSE(HasErrors(CheckFully(other)));
      EXPECT_EQ(ExplainDifference(model, other, inputs), "");
      ++converted;
    }
  }
  EXPECT_GE(converted, 28 * 13);
}

// ONNX's own operator cases, each written for several opsets: refused, or the same answers.
// Under the address sanitizer each case goes to every third opset, beginning with another one than the case before.
#ifdef FERRY_SANITIZE_ADDRESS
constexpr size_t kEveryOpset = 3;
#else
constexpr size_t kEveryOpset = 1;
#endif

TEST(Convert, OperatorCasesMeanTheSame) {
  constexpr int64_t kOpsets[] = {7, 9, 10, 11, 12, 13, 15, 17, 20, 22, 28};
  std::map<std::string, int> refused;
  size_t number = 0, same = 0;
  for (const TestCase& test_case : FindTestCases(Data("onnx-node"))) {
    Model model = ReadModel(test_case.folder + "/model.onnx");
    if (!testing::IsForThisBuild(model.graph)) continue;
    std::vector<NamedValue> inputs;
    for (size_t i = 0; i < model.graph.inputs.size(); ++i) {
      std::string file = Cat(test_case.folder, "/test_data_set_0/input_", i, ".pb");
      if (IsFile(file))
        inputs.emplace_back(model.graph.inputs[i].name, ReadValueFile(file, &model.graph.inputs[i].type));
    }
    for (size_t i = number++ % kEveryOpset; i < std::size(kOpsets); i += kEveryOpset) {
      const int64_t target = kOpsets[i];
      SCOPED_TRACE(Cat(test_case.name, " to opset ", target));
      Model other;
      try {
        other = ConvertOpset(model, target);
      } catch (const Error& error) {
        EXPECT_NE(error.message().find("cannot be converted"), std::string::npos) << error.message();
        ++refused[error.message().substr(error.message().rfind(": ") + 2)];
        continue;
      }
      try {
        EXPECT_EQ(ExplainDifference(model, other, inputs), "");
      } catch (const Error& error) {
        ADD_FAILURE() << error.message();
      }
      ++same;
    }
  }
  EXPECT_GT(same, 5000 / kEveryOpset);
}

// Attributes that an older operator has become inputs or go to other nodes: nothing of them stays behind.
TEST(Convert, OlderFormsAreWrittenAnew) {
  const std::vector<NamedValue> inputs = {{"x", Value(Tensor::FromVector<float>({3, 1, -2, 0.5f, 4, -1}, {2, 3}))}};
  struct Old {
    Node node;
    int64_t opset;
  };
  const Old olds[] = {
      {MakeNode("Softmax", {"x"}, {"y"}, {{"axis", int64_t{1}}}), 9},
      {MakeNode("Pad", {"x"}, {"y"}, {{"pads", std::vector<int64_t>{0, 1, 0, 2}}, {"value", 7.0f}}), 9},
      {MakeNode("Clip", {"x"}, {"y"}, {{"min", -1.0f}, {"max", 2.0f}}), 9},
      {MakeNode("TopK", {"x"}, {"y", "indices"}, {{"k", int64_t{2}}}), 9},
      {MakeNode("Dropout", {"x"}, {"y"}, {{"ratio", 0.25f}}), 10},
  };
  for (const auto& [node, opset] : olds) {
    SCOPED_TRACE(node.op_type);
    const ValueInfo y = MakeInfo("y", DType::kFloat, {Dim(), Dim()});
    Model model = MakeModel({MakeInfo("x", DType::kFloat, {2, 3})}, {node}, {y}, {}, opset);
    for (int64_t target : {int64_t{11}, int64_t{13}, int64_t{17}}) {
      Model other;
      ASSERT_NO_THROW(other = ConvertOpset(model, target)) << target;
      EXPECT_EQ(ExplainDifference(model, other, inputs), "");
    }
  }
}

TEST(Convert, SplitsIntoMorePartsThanOutputsAreRefused) {
  Node split = MakeNode("Split", {"x"}, {"y"});
  split.Set("num_outputs", int64_t{1} << 62);
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {2})}, {split}, {MakeInfo("y", DType::kFloat, {2})});
  EXPECT_THROW(ConvertOpset(model, 11), Error);
}

// Rules read inputs by number; what is missing is said before.
TEST(Convert, NodesWithTooFewInputsAreRefused) {
  auto refusal = [&](const char* op, std::vector<std::string> inputs, std::vector<std::string> outputs) -> std::string {
    Model model = MakeModel({MakeInfo("x", DType::kFloat, {2})}, {MakeNode(op, std::move(inputs), std::move(outputs))},
                            {MakeInfo("y", DType::kFloat, {2})});
    try {
      ConvertOpset(model, 11);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_THAT(refusal("Swish", {}, {"y"}), ::testing::HasSubstr("it has 0 inputs, the operator has at least 1"));
  EXPECT_THAT(refusal("RMSNormalization", {"x"}, {"y"}), ::testing::HasSubstr("it has 1 inputs"));
  EXPECT_THAT(refusal("Mish", {"x"}, {}), ::testing::HasSubstr("it has 0 outputs"));
  Model split = MakeModel({MakeInfo("x", DType::kFloat, {7})},
                          {MakeNode("Split", {"x"}, {"a", "b"}, {{"num_outputs", int64_t{1} << 62}})},
                          {MakeInfo("a"), MakeInfo("b")});
  EXPECT_THROW(ConvertOpset(split, 11), Error);
}

// The same name stands for values of other ranks in bodies beside each other.
TEST(Convert, ShapesAreThoseOfTheBody) {
  auto body = [](Node first, const char* axes) {
    auto graph = std::make_shared<Graph>();
    graph->name = axes;
    graph->nodes = {std::move(first), MakeNode("ReduceSum", {"t", axes}, {"s"}, {{"keepdims", int64_t{0}}}),
                    MakeNode("Reshape", {"s", "shape"}, {"o"})};
    graph->initializers = {MakeStored(axes, Tensor::FromVector<int64_t>({-1}))};
    graph->outputs = {MakeInfo("o", DType::kFloat, {2, 3})};
    return graph;
  };
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {2, 3, 4}), MakeInfo("c", DType::kBool, SymbolicShape())},
      {MakeNode("If", {"c"}, {"y"},
                {{"then_branch", body(MakeNode("Relu", {"x"}, {"t"}), "one")},
                 {"else_branch", body(MakeNode("Unsqueeze", {"x", "zero"}, {"t"}), "other")}})},
      {MakeInfo("y", DType::kFloat, {2, 3})},
      {MakeStored("shape", Tensor::FromVector<int64_t>({2, 3})), MakeStored("zero", Tensor::FromVector<int64_t>({0}))},
      13);
  const Model converted = ConvertOpset(model, 10);
  Tensor x(DType::kFloat, {2, 3, 4});
  for (int64_t i = 0; i < x.size(); ++i) x.MutableData<float>()[i] = static_cast<float>(i);
  for (bool taken : {true, false})
    EXPECT_EQ(ExplainDifference(model, converted, {{"x", x}, {"c", Tensor::Scalar(taken)}}), "");
}

}  // namespace
}  // namespace ferry
