#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "measure/compare/comparison.h"
#include "measure/compare/report.h"
#include "ops/support/widen.h"
#include "tests/measure/fault_injection.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

Tensor Floats(std::vector<float> values, Shape shape) { return Tensor::FromVector(values, std::move(shape)); }

TEST(Agreement, CountsLastPlacesInTheTypeOfTheAnswer) {
  float next = std::nextafter(1.0f, 2.0f);
  EXPECT_EQ(Agree(Floats({next}, {1}), Floats({1}, {1}), 1)->max_ulp, 1);
  EXPECT_EQ(Agree(Floats({1}, {1}), Floats({1}, {1}), 1)->max_ulp, 0);
  Tensor half = NarrowFromFloat(Floats({1.0f + 0x1p-10f}, {1}), DType::kFloat16);
  EXPECT_EQ(Agree(half, Floats({1}, {1}), 1)->max_ulp, 1);
  EXPECT_EQ(Agree(Floats({0x1p-149f}, {1}), Floats({0}, {1}), 1)->max_ulp, 1);
  EXPECT_EQ(Agree(Floats({next, 1}, {2}), Floats({1, 1}, {2}), 1)->mean_ulp, 0.5);
}

TEST(Agreement, ComparesDirections) {
  EXPECT_DOUBLE_EQ(*Agree(Floats({1, 2}, {2}), Floats({2, 4}, {2}), 1)->cosine, 1);
  EXPECT_DOUBLE_EQ(*Agree(Floats({1, 0}, {2}), Floats({0, 3}, {2}), 1)->cosine, 0);
  EXPECT_DOUBLE_EQ(*Agree(Floats({1e30f, 0}, {2}), Floats({-1e30f, 0}, {2}), 1)->cosine, -1);
  EXPECT_FALSE(Agree(Floats({0, 0}, {2}), Floats({0, 3}, {2}), 1)->cosine);
}

TEST(Agreement, CountsRowsWithTheSameDecision) {
  Tensor a = Floats({1, 2, 3, 9, 8, 7}, {2, 3}), b = Floats({1, 3, 2, 9, 8, 7}, {2, 3});
  auto agreement = Agree(a, b, 2);
  EXPECT_EQ(agreement->argmax->rows, 2);
  EXPECT_EQ(agreement->argmax->same, 1);
  EXPECT_EQ(agreement->top_k->same, 2);  // the two largest are the same set
  EXPECT_FALSE(Agree(a, b, 3)->top_k) << "three of three say nothing";
  EXPECT_FALSE(Agree(Floats({1}, {1, 1, 1, 1}), Floats({1}, {1, 1, 1, 1}), 1)->argmax) << "an image has no decisions";
}

TEST(Agreement, SortsErrorsByPowersOfTen) {
  float nan = std::nanf("");
  auto agreement = Agree(Floats({1, 1.5f, nan, nan, 20}, {5}), Floats({1, 1, nan, 1, 0}, {5}), 1);
  const ErrorHistogram& histogram = agreement->histogram;
  EXPECT_EQ(histogram.equal, 2);
  EXPECT_EQ(histogram.not_finite, 1);
  EXPECT_EQ(histogram.bins[-1 - ErrorHistogram::kLowest], 1);
  EXPECT_EQ(histogram.bins[1 - ErrorHistogram::kLowest], 1);
  EXPECT_EQ(histogram.total(), 5);
}

TEST(Agreement, MeasuresFloatsAlone) {
  EXPECT_FALSE(Agree(Tensor::Scalar<int64_t>(1), Tensor::Scalar<int64_t>(1), 1));
  EXPECT_FALSE(Agree(Floats({1}, {1}), Floats({1, 2}, {2}), 1));
}

TEST(EdgeCases, FillFloatsAndLeaveTheRest) {
  Sample like{"given", Sample::Kind::kRecorded, {}, {}};
  like.inputs.emplace_back("x", Floats({1, 2, 3, 4}, {2, 2}));
  like.inputs.emplace_back("ids", Tensor::FromVector<int64_t>({7, 8}));
  std::vector<std::string> names;
  for (const Sample& sample : MakeEdgeCases(like)) {
    names.push_back(sample.name);
    const Tensor &x = sample.inputs[0].second.tensor(), &ids = sample.inputs[1].second.tensor();
    EXPECT_EQ(x.shape(), Shape({2, 2}));
    if (sample.name == "zeros") {
      EXPECT_EQ(x.Data<float>()[3], 0);
    }
    if (sample.name == "denormal") {
      EXPECT_EQ(std::fpclassify(x.Data<float>()[1]), FP_SUBNORMAL);
    }
    if (sample.name == "shuffled batch") {
      EXPECT_EQ(x.Data<float>()[0], 3);
      EXPECT_EQ(ids.Data<int64_t>()[0], 8);
    } else {
      EXPECT_EQ(ids.Data<int64_t>()[0], 7);
    }
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"zeros", "ones", "large", "tiny", "denormal", "constant", "shuffled batch"}));
}

// y = relu(x·w1) · w2, then a sum with x.
Model SmallNetwork() {
  return MakeModel({MakeInfo("x", DType::kFloat, {2, 2})},
                   {MakeNode("MatMul", {"x", "w1"}, {"a"}), MakeNode("Relu", {"a"}, {"b"}),
                    MakeNode("MatMul", {"b", "w2"}, {"c"}), MakeNode("Add", {"c", "x"}, {"y"})},
                   {MakeInfo("y", DType::kFloat, {2, 2})},
                   {MakeStored("w1", Floats({1, 2, 3, 4}, {2, 2})), MakeStored("w2", Floats({5, 6, 7, 8}, {2, 2}))});
}

Side SideOf(Model model, const char* label = "model") {
  return Side::FromModel(std::move(model), {label, false, SessionOptions{.threads = 1}});
}

std::vector<Sample> OneSample() {
  Sample sample{"given", Sample::Kind::kRecorded, {}, {}};
  sample.inputs.emplace_back("x", Floats({1, -2, 3, 0.5f}, {2, 2}));
  return {sample};
}

TEST(CompareSides, EqualModelsAgree) {
  Comparison comparison =
      CompareSides(SideOf(SmallNetwork()), SideOf(SmallNetwork()), NameTrust::kHints, OneSample(), {});
  EXPECT_TRUE(comparison.within());
  EXPECT_EQ(comparison.max_abs(), 0);
  EXPECT_FALSE(comparison.trace);
}

TEST(CompareSides, NamesTheLayerAndWhatIsDifferent) {
  Model other = SmallNetwork();
  other.graph.nodes[1].op_type = "Sigmoid";
  Comparison comparison =
      CompareSides(SideOf(std::move(other)), SideOf(SmallNetwork()), NameTrust::kHints, OneSample(), {});
  EXPECT_FALSE(comparison.within());
  ASSERT_TRUE(comparison.trace && comparison.trace->first);
  const FaultyLayer& layer = *comparison.trace->first;
  EXPECT_EQ(layer.value, "b");
  EXPECT_EQ(layer.op, "Sigmoid");
  EXPECT_EQ(layer.other_op, "Relu");
  EXPECT_EQ(layer.differences, std::vector<std::string>{"operator Sigmoid instead of Relu"});
  EXPECT_EQ(layer.input_error, 0);
  ASSERT_EQ(layer.inputs.size(), 1u);
  EXPECT_EQ(layer.inputs[0].least, -6);
  std::vector<std::string> path;
  for (size_t place : comparison.trace->path) path.push_back(comparison.trace->layers[place].value);
  EXPECT_EQ(path, (std::vector<std::string>{"b", "c", "y"}));
}

TEST(CompareSides, FindsTheLayerWithoutNames) {
  Model nameless = SmallNetwork();
  testing::TakeNamesAway(nameless);
  Model other = SmallNetwork();
  other.graph.initializers[1] = MakeStored("w2", Floats({5, 6, 7, 9}, {2, 2}));
  Comparison comparison =
      CompareSides(SideOf(std::move(other)), SideOf(std::move(nameless)), NameTrust::kHints, OneSample(), {});
  ASSERT_TRUE(comparison.trace && comparison.trace->first);
  EXPECT_EQ(comparison.trace->first->value, "c");
  EXPECT_EQ(comparison.trace->layers.size(), 4u);
}

TEST(CompareSides, ModelsOfOtherPrecisionCanBeCompared) {
  Model half = SmallNetwork();
  for (StoredTensor& weight : half.graph.initializers)
    weight = MakeStored(weight.name, NarrowFromFloat(weight.Get(), DType::kFloat16));
  half.graph.inputs = {MakeInfo("x", DType::kFloat16, {2, 2})};
  half.graph.outputs = {MakeInfo("y", DType::kFloat16, {2, 2})};
  Comparison comparison =
      CompareSides(SideOf(std::move(half)), SideOf(SmallNetwork()), NameTrust::kHints, OneSample(), {});
  EXPECT_TRUE(comparison.within());
  EXPECT_EQ(comparison.samples[0].outputs[0].type, "float16[2, 2]");
}

TEST(CompareSides, AnAnswerOnOneSideAloneIsADifference) {
  Model picky = SmallNetwork();
  picky.graph.nodes.push_back(MakeNode("Reshape", {"y", "shape"}, {"z"}));
  picky.graph.initializers.push_back(MakeStored("shape", Tensor::FromVector<int64_t>({3, 3})));
  picky.graph.outputs = {MakeInfo("z")};
  Comparison comparison = CompareSides(SideOf(SmallNetwork(), "small"), SideOf(std::move(picky), "picky"),
                                       NameTrust::kHints, OneSample(), {});
  EXPECT_FALSE(comparison.within());
  EXPECT_NE(comparison.samples[0].only_one.find("only small answers"), std::string::npos);
}

TEST(CompareSides, RefusesModelsWithOtherNumbersOfInputs) {
  Model two = SmallNetwork();
  two.graph.inputs.push_back(MakeInfo("more"));
  EXPECT_THROW(CompareSides(SideOf(SmallNetwork()), SideOf(std::move(two)), NameTrust::kHints, OneSample(), {}), Error);
}

// (x + 1e8) - 1e8: what float loses in the sum, double keeps.
Model Cancellation() {
  Tensor large = Floats({1e8f}, {1});
  return MakeModel({MakeInfo("x", DType::kFloat, {2, 2})},
                   {MakeNode("Mul", {"x", "two"}, {"d"}), MakeNode("Add", {"d", "large"}, {"s"}),
                    MakeNode("Sub", {"s", "large"}, {"r"}), MakeNode("Relu", {"r"}, {"y"})},
                   {MakeInfo("y", DType::kFloat, {2, 2})},
                   {MakeStored("large", large), MakeStored("two", Floats({2}, {1}))});
}

TEST(CompareFloat64, SaysWherePrecisionIsLost) {
  Side side = SideOf(Cancellation());
  Side exact = side.With({"float64", true, side.how().options});
  Comparison comparison = CompareSides(side, exact, NameTrust::kSameModel, OneSample(), {});
  EXPECT_FALSE(comparison.within());
  ASSERT_TRUE(comparison.trace);
  double at_sum = 0, at_difference = 0;
  for (const TracedLayer& layer : comparison.trace->layers) {
    if (layer.value == "s") at_sum = layer.error;
    if (layer.value == "r") at_difference = layer.error;
  }
  EXPECT_LT(at_sum, 1e-7);
  EXPECT_GT(at_difference, 1e-2);
}

TEST(CompareRecorded, TellsRoundingFromAnotherNetwork) {
  std::vector<Sample> samples = OneSample();
  samples[0].recorded_outputs.emplace_back("y", Floats({2, 0, 6, 1}, {2, 2}));
  EXPECT_EQ(CompareWithRecordings(SideOf(Cancellation()), samples, {}).cause, RecordedCause::kPrecision);
  samples[0].recorded_outputs[0].second = Floats({2, 0, 6, 100}, {2, 2});
  EXPECT_EQ(CompareWithRecordings(SideOf(SmallNetwork()), samples, {}).cause, RecordedCause::kOtherNetwork);
}

TEST(CompareReport, JsonAndPageTellTheSame) {
  Model other = SmallNetwork();
  other.graph.nodes[1].op_type = "Sigmoid";
  other.graph.nodes[1].name = "<script>";
  Comparison comparison =
      CompareSides(SideOf(std::move(other), "new"), SideOf(SmallNetwork(), "old"), NameTrust::kHints, OneSample(), {});
  Json json = Json::Parse(ToJson(comparison).Dump());
  EXPECT_FALSE(json.At("within").AsBool());
  EXPECT_EQ(json.At("trace").At("first").At("node").AsString(), "<script>");
  EXPECT_EQ(json.At("outputs").AsArray().at(0).At("elements").AsInt(), 4);
  std::string page = ToHtml(comparison);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos) << "the page asks for nothing";
}

}  // namespace
}  // namespace ferry
