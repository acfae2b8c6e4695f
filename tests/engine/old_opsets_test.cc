// What old opsets meant, in numbers. ONNX's own cases are of newer opsets, so these are worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/session.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

struct Old {
  Node node;
  int64_t opset;
  std::vector<Tensor> inputs;
  std::string domain = "";
  int64_t domain_opset = 0;
};

std::vector<Value> RunOld(Old old) {
  std::vector<ValueInfo> inputs, outputs;
  std::vector<NamedValue> values;
  size_t next = 0;
  for (const std::string& name : old.node.inputs) {
    if (name.empty()) continue;
    const Tensor& tensor = old.inputs.at(next++);
    inputs.push_back(MakeInfo(name, tensor.dtype()));
    values.emplace_back(name, Value(tensor));
  }
  for (const std::string& name : old.node.outputs)
    if (!name.empty()) outputs.push_back(MakeInfo(name, DType::kUndefined));
  Model model = MakeModel(inputs, {old.node}, outputs, {}, old.opset);
  if (old.domain_opset) {
    model.graph.nodes[0].domain = old.domain;
    model.opsets.push_back({old.domain, old.domain_opset, {}});
  }
  return Session::FromModel(model, {.threads = 1})->Run(values);
}

Floats FloatsOf(const Value& value) {
  auto span = value.tensor().Span<float>();
  return {span.begin(), span.end()};
}

Tensor Counting(Shape shape, float first = 0, float step = 1) {
  Tensor tensor(DType::kFloat, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<float>()[i] = first + step * static_cast<float>(i);
  return tensor;
}

void ExpectNear(const Floats& actual, const Floats& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-4 * (1 + std::fabs(expected[i]))) << i;
}

TEST(OldOpsets, BroadcastFromAnAxis) {
  // b belongs to axis 1 of a.
  std::vector<Attribute> attributes = {Attribute("broadcast", int64_t{1}), Attribute("axis", int64_t{1})};
  auto outputs = RunOld({MakeNode("Add", {"a", "b"}, {"y"}, attributes),
                         6,
                         {Counting({1, 2, 3}), Tensor::FromVector<float>({100, 200})}});
  EXPECT_EQ(FloatsOf(outputs[0]), (Floats{100, 101, 102, 203, 204, 205}));
  attributes[1] = Attribute("axis", int64_t{-2});
  auto from_back = RunOld(
      {MakeNode("Mul", {"a", "b"}, {"y"}, attributes), 6, {Counting({1, 2, 3}), Tensor::FromVector<float>({1, 10})}});
  EXPECT_EQ(FloatsOf(from_back[0]), (Floats{0, 1, 2, 30, 40, 50}));
}

TEST(OldOpsets, SlopePerChannel) {
  auto outputs =
      RunOld({MakeNode("PRelu", {"a", "s"}, {"y"}), 6, {Counting({1, 2, 2}, -4), Tensor::FromVector<float>({2, 10})}});
  EXPECT_EQ(FloatsOf(outputs[0]), (Floats{-8, -6, -20, -10}));
}

TEST(OldOpsets, SoftmaxOverEverythingBehindTheAxis) {
  auto outputs = RunOld({MakeNode("Softmax", {"a"}, {"y"}), 11, {Counting({2, 2, 2}, 0, 0)}});
  EXPECT_EQ(FloatsOf(outputs[0]), Floats(8, 0.25f));
  EXPECT_EQ(outputs[0].tensor().shape(), (Shape{2, 2, 2}));
  auto hardmax = RunOld({MakeNode("Hardmax", {"a"}, {"y"}), 11, {Counting({2, 2, 2})}});
  EXPECT_EQ(FloatsOf(hardmax[0]), (Floats{0, 0, 0, 1, 0, 0, 0, 1}));
}

TEST(OldOpsets, BatchNormalizationPerActivation) {
  std::vector<Tensor> inputs = {Tensor::FromVector<float>({1, 2, 3, 4}, {1, 2, 2}),
                                Tensor::FromVector<float>({1, 1, 2, 2}, {2, 2}), Counting({2, 2}, 0, 0),
                                Tensor::FromVector<float>({0, 0, 1, 1}, {2, 2}), Counting({2, 2}, 1, 0)};
  auto outputs = RunOld({MakeNode("BatchNormalization", {"a", "s", "b", "m", "v"}, {"y"},
                                  {Attribute("spatial", int64_t{0}), Attribute("epsilon", 0.0f)}),
                         7, inputs});
  ExpectNear(FloatsOf(outputs[0]), {1, 2, 4, 6});
}

TEST(OldOpsets, BatchNormalizationInTrainingGivesItsStatistics) {
  std::vector<Tensor> inputs = {Tensor::FromVector<float>({1, 3}, {2, 1}), Tensor::FromVector<float>({1}),
                                Tensor::FromVector<float>({0}), Tensor::FromVector<float>({10}),
                                Tensor::FromVector<float>({20})};
  auto outputs = RunOld({MakeNode("BatchNormalization", {"a", "s", "b", "m", "v"}, {"y", "rm", "rv", "sm", "sv"},
                                  {Attribute("momentum", 0.5f), Attribute("epsilon", 0.0f)}),
                         9, inputs});
  ExpectNear(FloatsOf(outputs[0]), {-1, 1});
  ExpectNear(FloatsOf(outputs[1]), {6});
  ExpectNear(FloatsOf(outputs[2]), {10.5});
  ExpectNear(FloatsOf(outputs[3]), {2});
  ExpectNear(FloatsOf(outputs[4]), {1});
}

TEST(OldOpsets, GroupNormalizationPerGroup) {
  // Two channels per group, one scale and bias per group.
  auto outputs = RunOld({MakeNode("GroupNormalization", {"a", "s", "b"}, {"y"},
                                  {Attribute("num_groups", int64_t{2}), Attribute("epsilon", 0.0f)}),
                         18,
                         {Tensor::FromVector<float>({-1, 1, 3, 5}, {1, 4, 1}), Tensor::FromVector<float>({1, 10}),
                          Tensor::FromVector<float>({0, 100})}});
  ExpectNear(FloatsOf(outputs[0]), {-1, 1, 90, 110});
}

TEST(OldOpsets, DropoutInInferenceGivesAMaskOfItsOwnType) {
  auto outputs = RunOld({MakeNode("Dropout", {"a"}, {"y", "mask"}), 7, {Counting({3})}});
  EXPECT_EQ(FloatsOf(outputs[0]), (Floats{0, 1, 2}));
  EXPECT_EQ(FloatsOf(outputs[1]), (Floats{1, 1, 1}));
}

TEST(OldOpsets, AttributesThatBecameInputs) {
  auto slice = RunOld({MakeNode("Slice", {"a"}, {"y"}, {Attribute("starts", Ints{1}), Attribute("ends", Ints{-1})}),
                       1,
                       {Counting({5})}});
  EXPECT_EQ(FloatsOf(slice[0]), (Floats{1, 2, 3}));
  auto clip =
      RunOld({MakeNode("Clip", {"a"}, {"y"}, {Attribute("min", 1.0f), Attribute("max", 2.0f)}), 6, {Counting({4})}});
  EXPECT_EQ(FloatsOf(clip[0]), (Floats{1, 1, 2, 2}));
  auto pad = RunOld(
      {MakeNode("Pad", {"a"}, {"y"}, {Attribute("pads", Ints{1, 0}), Attribute("value", 7.0f)}), 2, {Counting({2})}});
  EXPECT_EQ(FloatsOf(pad[0]), (Floats{7, 0, 1}));
  auto sum =
      RunOld({MakeNode("ReduceSum", {"a"}, {"y"}, {Attribute("axes", Ints{1}), Attribute("keepdims", int64_t{0})}),
              11,
              {Counting({2, 2})}});
  EXPECT_EQ(FloatsOf(sum[0]), (Floats{1, 5}));
  auto top = RunOld({MakeNode("TopK", {"a"}, {"y", "i"}, {Attribute("k", int64_t{1})}), 1, {Counting({3})}});
  EXPECT_EQ(FloatsOf(top[0]), (Floats{2}));
  auto split = RunOld({MakeNode("Split", {"a"}, {"y", "z"}, {Attribute("split", Ints{1, 2})}), 2, {Counting({3})}});
  EXPECT_EQ(FloatsOf(split[1]), (Floats{1, 2}));
}

TEST(OldOpsets, TileAlongOneAxis) {
  auto outputs = RunOld(
      {MakeNode("Tile", {"a", "n", "k"}, {"y"}), 1, {Counting({1, 2}), Tensor::Scalar(2.0f), Tensor::Scalar(1.0f)}});
  EXPECT_EQ(FloatsOf(outputs[0]), (Floats{0, 1, 0, 1}));
}

TEST(OldOpsets, OneHotOfANegativeIndexIsOff) {
  auto outputs =
      RunOld({MakeNode("OneHot", {"i", "d", "v"}, {"y"}),
              9,
              {Tensor::FromVector<int64_t>({-1, 1}), Tensor::Scalar<int64_t>(2), Tensor::FromVector<float>({0, 1})}});
  EXPECT_EQ(FloatsOf(outputs[0]), (Floats{0, 0, 0, 1}));
}

TEST(OldOpsets, UpsampleAndResize) {
  Tensor image = Tensor::FromVector<float>({1, 2, 3, 4}, {1, 1, 2, 2});
  auto nearest = RunOld({MakeNode("Upsample", {"a"}, {"y"}, {Attribute("scales", Floats{1, 1, 1, 2})}), 7, {image}});
  EXPECT_EQ(FloatsOf(nearest[0]), (Floats{1, 1, 2, 2, 3, 3, 4, 4}));
  // Coordinates are divided by the scale: 0, 0.5, 1, 1.5, and what lies beyond the edge is the edge.
  auto linear = RunOld({MakeNode("Upsample", {"a", "s"}, {"y"}, {Attribute("mode", std::string("linear"))}),
                        9,
                        {image, Tensor::FromVector<float>({1, 1, 1, 2})}});
  EXPECT_EQ(FloatsOf(linear[0]), (Floats{1, 1.5, 2, 2, 3, 3.5, 4, 4}));
  auto shrunk = RunOld({MakeNode("Resize", {"a", "s"}, {"y"}),
                        10,
                        {Counting({1, 1, 1, 4}, 1), Tensor::FromVector<float>({1, 1, 1, 0.6f})}});
  EXPECT_EQ(FloatsOf(shrunk[0]), (Floats{1, 3}));
}

TEST(OldOpsets, PoolingWithABrokenPower) {
  Tensor image = Tensor::FromVector<float>({1, 2, 3, 4}, {1, 1, 2, 2});
  float sum = 0;
  for (float value : {1.f, 2.f, 3.f, 4.f}) sum += std::pow(value, 1.5f);
  auto global = RunOld({MakeNode("GlobalLpPool", {"a"}, {"y"}, {Attribute("p", 1.5f)}), 1, {image}});
  ExpectNear(FloatsOf(global[0]), {std::pow(sum, 1 / 1.5f)});
  auto pool = RunOld(
      {MakeNode("LpPool", {"a"}, {"y"}, {Attribute("p", 1.5f), Attribute("kernel_shape", Ints{2, 2})}), 1, {image}});
  ExpectNear(FloatsOf(pool[0]), {std::pow(sum, 1 / 1.5f)});
}

TEST(OldOpsets, IntegersThroughErf) {
  auto outputs = RunOld({MakeNode("Erf", {"a"}, {"y"}), 9, {Tensor::FromVector<int32_t>({0, 9, -9})}});
  EXPECT_EQ(outputs[0].tensor().Data<int32_t>()[1], 1);
  EXPECT_EQ(outputs[0].tensor().Data<int32_t>()[2], -1);
}

TEST(OldOpsets, LabelsBothWays) {
  Node node =
      MakeNode("LabelEncoder", {"a"}, {"y"}, {Attribute("classes_strings", std::vector<std::string>{"cat", "dog"})});
  auto numbers = RunOld({node, 8, {Tensor::FromVector<std::string>({"dog", "bird"})}, "ai.onnx.ml", 1});
  EXPECT_EQ(ToInt64Vector(numbers[0].tensor()), (Ints{1, -1}));
  auto names = RunOld({node, 8, {Tensor::FromVector<int64_t>({0, 7})}, "ai.onnx.ml", 1});
  EXPECT_EQ(names[0].tensor().Data<std::string>()[0], "cat");
  EXPECT_EQ(names[0].tensor().Data<std::string>()[1], "_Unused");
}

// A running sum over two sequences, the second shorter; the sums so far are padded with zeros.
TEST(OldOpsets, ScanOverABatch) {
  auto body = std::make_shared<Graph>();
  body->name = "body";
  body->inputs = {MakeInfo("s", DType::kFloat, {1}), MakeInfo("x", DType::kFloat, {1})};
  body->outputs = {MakeInfo("s2", DType::kFloat, {1}), MakeInfo("o", DType::kFloat, {1})};
  body->nodes = {MakeNode("Add", {"s", "x"}, {"s2"}), MakeNode("Identity", {"s2"}, {"o"})};
  std::vector<Attribute> attributes = {Attribute("body", body), Attribute("num_scan_inputs", int64_t{1})};
  Tensor start = Counting({2, 1}, 0, 0), data = Counting({2, 3, 1}, 1);
  auto whole = RunOld({MakeNode("Scan", {"", "a", "b"}, {"y", "z"}, attributes), 8, {start, data}});
  EXPECT_EQ(FloatsOf(whole[0]), (Floats{6, 15}));
  EXPECT_EQ(FloatsOf(whole[1]), (Floats{1, 3, 6, 4, 9, 15}));
  auto cut = RunOld({MakeNode("Scan", {"n", "a", "b"}, {"y", "z"}, attributes),
                     8,
                     {Tensor::FromVector<int64_t>({3, 1}), start, data}});
  EXPECT_EQ(FloatsOf(cut[0]), (Floats{6, 4}));
  EXPECT_EQ(FloatsOf(cut[1]), (Floats{1, 3, 6, 4, 0, 0}));
}

}  // namespace
}  // namespace ferry
