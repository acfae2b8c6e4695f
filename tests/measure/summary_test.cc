#include "measure/summary.h"

#include <gtest/gtest.h>

#include "measure/random_input.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

StoredTensor Weight(const char* name, Shape shape) { return MakeStored(name, Tensor::Zeros(DType::kFloat, shape)); }

Model Convolution() {
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 3, 8, 8})},
                   {MakeNode("Conv", {"x", "w"}, {"y"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})}, {MakeInfo("y")},
                   {Weight("w", {4, 3, 3, 3})});
}

TEST(Summary, CountsParametersAndMultiplyAdds) {
  ModelSummary summary = Summarize(Convolution(), {});
  EXPECT_EQ(summary.parameters, 4 * 3 * 3 * 3);
  EXPECT_EQ(summary.parameter_bytes, 4 * 4 * 3 * 3 * 3);
  ASSERT_TRUE(summary.multiply_adds);
  EXPECT_EQ(*summary.multiply_adds, 4 * 8 * 8 * 3 * 3 * 3);
  EXPECT_EQ(summary.dimensions.at("n"), 1);
  ASSERT_TRUE(summary.activation_bytes);
  EXPECT_GE(*summary.activation_bytes, 4 * (3 * 8 * 8 + 4 * 8 * 8));
}

TEST(Summary, WeightsOfFewBitsAreParameters) {
  Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {1, 3, 8, 8})},
                {MakeNode("DequantizeLinear", {"w", "s"}, {"f"}), MakeNode("Conv", {"x", "f"}, {"y"})}, {MakeInfo("y")},
                {MakeStored("w", Tensor::Zeros(DType::kInt8, {4, 3, 3, 3})), Weight("s", {})});
  ModelSummary summary = Summarize(model, {});
  EXPECT_EQ(summary.parameters, 4 * 3 * 3 * 3 + 1);
  EXPECT_EQ(summary.quantized_weights.at(8), 4 * 3 * 3 * 3);
  EXPECT_EQ(summary.layers.at(0).parameters, 4 * 3 * 3 * 3 + 1);
}

TEST(Summary, TakesTheSizesGiven) {
  EXPECT_EQ(*Summarize(Convolution(), {{"n", 5}}).multiply_adds, 5 * 4 * 8 * 8 * 3 * 3 * 3);
  EXPECT_THROW(Summarize(Convolution(), {{"m", 5}}), Error);
}

TEST(Summary, FillsInShapesThatTheModelLeavesOpen) {
  ModelSummary summary = Summarize(Convolution(), {});
  EXPECT_EQ(ToText(summary.outputs.at(0).type), "float[n, 4, 8, 8]");
}

TEST(Summary, CountsOperatorsInBodiesToo) {
  auto body = std::make_shared<Graph>();
  body->nodes = {MakeNode("Relu", {"x"}, {"r"})};
  body->outputs = {MakeInfo("r")};
  Model model =
      MakeModel({MakeInfo("x"), MakeInfo("c", DType::kBool)},
                {MakeNode("If", {"c"}, {"y"}, {{"then_branch", body}, {"else_branch", body}})}, {MakeInfo("y")});
  ModelSummary summary = Summarize(model, {});
  EXPECT_EQ(summary.nodes, 3);
  EXPECT_EQ(summary.operators.at(0), (std::pair<std::string, int64_t>("Relu", 2)));
}

TEST(Summary, SaysWhyACostIsNotKnown) {
  Model model = MakeModel({MakeInfo("x")}, {MakeNode("NoSuchOperator", {"x"}, {"y"})}, {MakeInfo("y")});
  ModelSummary summary = Summarize(model, {});
  EXPECT_FALSE(summary.multiply_adds && summary.activation_bytes);
  EXPECT_NE(summary.unknown_because, "");
}

TEST(RandomInput, IsTheSameForTheSameSeed) {
  auto session = Session::FromModel(Convolution());
  auto a = MakeRandomInputs(*session, {.seed = 3, .dimensions = {{"n", 2}}});
  auto b = MakeRandomInputs(*session, {.seed = 3, .dimensions = {{"n", 2}}});
  auto c = MakeRandomInputs(*session, {.seed = 4, .dimensions = {{"n", 2}}});
  ASSERT_EQ(a.size(), 1u);
  EXPECT_EQ(a[0].second.tensor().shape(), (Shape{2, 3, 8, 8}));
  EXPECT_TRUE(Identical(a[0].second, b[0].second));
  EXPECT_FALSE(Identical(a[0].second, c[0].second));
  EXPECT_THROW(MakeRandomInputs(*session, {.dimensions = {{"m", 2}}}), Error);
}

TEST(RandomInput, KeepsIndicesWithinTheTable) {
  Model model = MakeModel({MakeInfo("ids", DType::kInt64, {64}), MakeInfo("mask", DType::kInt64, {4})},
                          {MakeNode("Gather", {"table", "ids"}, {"rows"}), MakeNode("Identity", {"mask"}, {"kept"})},
                          {MakeInfo("rows"), MakeInfo("kept", DType::kInt64)}, {Weight("table", {7, 2})});
  auto session = Session::FromModel(model);
  auto inputs = MakeRandomInputs(*session, {});
  bool varied = false;
  for (int64_t id : ToInt64Vector(inputs[0].second.tensor())) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 7);
    varied = varied || id != 0;
  }
  EXPECT_TRUE(varied);
  EXPECT_EQ(ToInt64Vector(inputs[1].second.tensor()), (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_NO_THROW(session->Run(inputs));
}

}  // namespace
}  // namespace ferry
