#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::Elements;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using testing::InferNode;
using testing::OneNode;
using testing::RunNode;
using Ints = std::vector<int64_t>;
using FloatList = std::vector<float>;
using Strings = std::vector<std::string>;

Node Ml(std::string op, std::vector<Attribute> attributes = {}, size_t inputs = 1, size_t outputs = 1) {
  return OneNode(std::move(op), inputs, std::move(attributes), kMlDomain, outputs);
}
Value Floats(FloatList values, Shape shape) { return Tensor::FromVector<float>(values, std::move(shape)); }
auto Near(float value) { return FloatNear(value, 1e-5f); }

TEST(Imputer, ReplacesNanPerFeature) {
  Node node = Ml("Imputer", {{"imputed_value_floats", FloatList{10, 20}}, {"replaced_value_float", NAN}});
  EXPECT_EQ(Elements<float>(RunNode(node, {Floats({NAN, NAN, 1, 2}, {2, 2})})[0]), (FloatList{10, 20, 1, 2}));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(node, {Floats({1, 2, 3}, {1, 3})});
              }),
              HasSubstr("2 imputed values for 3 features"));
}

TEST(Imputer, RefusesAnIntegerThatDoesNotFit) {
  Node node = Ml("Imputer", {{"imputed_value_int64s", Ints{int64_t{1} << 40}}});
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Tensor::FromVector<int32_t>({0})}); }), HasSubstr("does not fit in int32"));
  EXPECT_EQ(Elements<int64_t>(RunNode(node, {Tensor::FromVector<int64_t>({0, 1})})[0]), (Ints{int64_t{1} << 40, 1}));
}

TEST(Scaler, AppliesOffsetThenScale) {
  Node node = Ml("Scaler", {{"offset", FloatList{1, 2}}, {"scale", FloatList{10}}});
  auto out = RunNode(node, {Tensor::FromVector<int32_t>({1, 2, 3, 4}, {2, 2})});
  EXPECT_EQ(Elements<float>(out[0]), (FloatList{0, 0, 20, 20}));
}

TEST(Normalizer, LeavesRowsOfZerosAlone) {
  auto norm = [](const char* name) { return Ml("Normalizer", {{"norm", std::string(name)}}); };
  Value x = Floats({-1, 2, 0, 0}, {2, 2});
  EXPECT_EQ(Elements<float>(RunNode(norm("MAX"), {x})[0]), (FloatList{-0.5f, 1, 0, 0}));
  EXPECT_THAT(Elements<float>(RunNode(norm("L1"), {x})[0]), ElementsAre(Near(-1 / 3.0f), Near(2 / 3.0f), 0, 0));
  EXPECT_THAT(Elements<float>(RunNode(norm("L2"), {x})[0]), ElementsAre(Near(-0.4472136f), Near(0.8944272f), 0, 0));
  EXPECT_THAT(ErrorOf([&] { RunNode(norm("L3"), {x}); }), HasSubstr("must be MAX, L1 or L2"));
}

TEST(FeatureVectorizer, CutsAndPadsToTheGivenSizes) {
  Node node = Ml("FeatureVectorizer", {{"inputdimensions", Ints{1, 3}}}, 2);
  auto out = RunNode(node, {Floats({1, 2, 3, 4}, {2, 2}), Floats({5, 6, 7, 8}, {2, 2})});
  EXPECT_EQ(Elements<float>(out[0]), (FloatList{1, 5, 6, 0, 3, 7, 8, 0}));
  auto facts = InferNode(node, {ValueFacts{Type::Tensor(DType::kFloat, {Dim::Named("n"), 2})},
                                ValueFacts{Type::Tensor(DType::kFloat, {Dim::Named("n"), 2})}});
  EXPECT_EQ(ToText(facts[0].type), "float[n, 4]");
}

TEST(LinearClassifier, OneRowOfCoefficientsSpeaksForTheSecondOfTwoClasses) {
  Node node = Ml("LinearClassifier",
                 {{"coefficients", FloatList{1, -1}},
                  {"intercepts", FloatList{0.5f}},
                  {"classlabels_strings", Strings{"no", "yes"}},
                  {"post_transform", std::string("LOGISTIC")}},
                 1, 2);
  auto out = RunNode(node, {Floats({1, 0, 0, 2}, {2, 2})});
  EXPECT_EQ(Elements<std::string>(out[0]), (Strings{"yes", "no"}));
  EXPECT_THAT(Elements<float>(out[1]),
              ElementsAre(Near(0.18242552f), Near(0.81757448f), Near(0.81757448f), Near(0.18242552f)));
  EXPECT_EQ(ToText(InferNode(node, {ValueFacts{Type::Tensor(DType::kFloat, {Dim::Named("n"), 2})}})[1].type),
            "float[n, 2]");
}

// ONNX Runtime's first example, logreg_iris.onnx: 12 coefficients for 3 classes, and inputs of 2 features.
TEST(LinearClassifier, CoefficientsBeyondThoseOfTheInterceptsAreLeftAside) {
  Node node = Ml("LinearClassifier",
                 {{"coefficients", FloatList{1, 2, 3, 4, 5, 6, 70, 80, 90, 100, 110, 120}},
                  {"intercepts", FloatList{0.5f, 0, -20}},
                  {"classlabels_ints", Ints{0, 1, 2}}},
                 1, 2);
  auto out = RunNode(node, {Floats({1, 0, 0, 1, 10, 10}, {3, 2})});
  EXPECT_EQ(Elements<float>(out[1]), (FloatList{1.5f, 3, -15, 2.5f, 4, -14, 30.5f, 70, 90}));
  EXPECT_EQ(Elements<int64_t>(out[0]), (Ints{1, 1, 2}));
}

TEST(LinearClassifier, RefusesCoefficientsThatDoNotFit) {
  Node node = Ml("LinearClassifier", {{"coefficients", FloatList{1, 2, 3}}, {"classlabels_ints", Ints{0, 1}}}, 1, 2);
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Floats({1, 2}, {1, 2})}); }), HasSubstr("not a whole number of rows"));
}

TEST(LinearRegressor, TransformsEachRow) {
  Node node = Ml(
      "LinearRegressor",
      {{"coefficients", FloatList{1, 0, 0, 1}}, {"targets", int64_t{2}}, {"post_transform", std::string("SOFTMAX")}});
  EXPECT_THAT(Elements<float>(RunNode(node, {Tensor::FromVector<int64_t>({0, 0}, {1, 2})})[0]),
              ElementsAre(0.5f, 0.5f));
  node.Set("post_transform", std::string("PROBIT"));
  EXPECT_THAT(Elements<float>(RunNode(node, {Floats({0.5f, 0.975f}, {1, 2})})[0]),
              ElementsAre(Near(0), FloatNear(1.96f, 5e-3f)));
  node.Set("post_transform", std::string("SOFTMAX_ZERO"));
  EXPECT_THAT(Elements<float>(RunNode(node, {Floats({0, 3}, {1, 2})})[0]), ElementsAre(0, 1));
}

TEST(SvmRegressor, OneClassGivesASign) {
  Node node = Ml("SVMRegressor", {{"kernel_type", std::string("RBF")},
                                  {"kernel_params", FloatList{1, 0, 0}},
                                  {"support_vectors", FloatList{0, 0, 5, 5}},
                                  {"coefficients", FloatList{1, 1}},
                                  {"n_supports", int64_t{2}},
                                  {"rho", FloatList{-0.5f}}});
  EXPECT_THAT(Elements<float>(RunNode(node, {Floats({0, 0, 9, 9}, {2, 2})})[0]), ElementsAre(Near(0.5f), Near(-0.5f)));
  node.Set("one_class", int64_t{1});
  EXPECT_THAT(Elements<float>(RunNode(node, {Floats({0, 0, 9, 9}, {2, 2})})[0]), ElementsAre(1, -1));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Floats({0, 0, 9}, {1, 3})}); }), HasSubstr("3 features need 6"));
}

TEST(SvmClassifier, PairsVoteAndProbabilitiesSumToOne) {
  // Three classes, one vector each: class i wins where feature i is the largest.
  Node node = Ml("SVMClassifier",
                 {{"vectors_per_class", Ints{1, 1, 1}},
                  {"support_vectors", FloatList{1, 0, 0, 0, 1, 0, 0, 0, 1}},
                  {"coefficients", FloatList{1, -1, -1, 1, 1, -1}},
                  {"rho", FloatList{0, 0, 0}},
                  {"classlabels_ints", Ints{10, 20, 30}}},
                 1, 2);
  auto out = RunNode(node, {Floats({1, 0, 0, 0, 0, 2}, {2, 3})});
  EXPECT_EQ(Elements<int64_t>(out[0]), (Ints{10, 30}));
  EXPECT_EQ(Elements<float>(out[1]), (FloatList{1, 1, 0, 0, -2, -2}));
  node.Set("prob_a", FloatList{-1, -1, -1});
  node.Set("prob_b", FloatList{0, 0, 0});
  FloatList p = Elements<float>(RunNode(node, {Floats({1, 0, 0}, {1, 3})})[1]);
  ASSERT_EQ(p.size(), 3u);
  EXPECT_NEAR(p[0] + p[1] + p[2], 1, 1e-6);
  EXPECT_GT(p[0], p[1]);
  EXPECT_NEAR(p[1], p[2], 5e-3);
}

// One tree: feature 0 ≤ 1 → class 0 else class 1 (two-sided votes).
Node SmallClassifier(Ints classes, FloatList weights) {
  return Ml("TreeEnsembleClassifier",
            {{"nodes_treeids", Ints{0, 0, 0}},
             {"nodes_nodeids", Ints{0, 1, 2}},
             {"nodes_featureids", Ints{0, 0, 0}},
             {"nodes_modes", Strings{"BRANCH_LEQ", "LEAF", "LEAF"}},
             {"nodes_values", FloatList{1, 0, 0}},
             {"nodes_truenodeids", Ints{1, 0, 0}},
             {"nodes_falsenodeids", Ints{2, 0, 0}},
             {"class_treeids", Ints{0, 0}},
             {"class_nodeids", Ints{1, 2}},
             {"class_ids", std::move(classes)},
             {"class_weights", std::move(weights)},
             {"classlabels_int64s", Ints{7, 8}}},
            1, 2);
}

TEST(TreeEnsembleClassifier, VotesForBothClasses) {
  auto out = RunNode(SmallClassifier({0, 1}, {1, 1}), {Floats({0, 2, NAN}, {3, 1})});
  EXPECT_EQ(Elements<int64_t>(out[0]), (Ints{7, 8, 8}));
  EXPECT_EQ(Elements<float>(out[1]), (FloatList{1, 0, 0, 1, 0, 1}));
}

TEST(TreeEnsembleClassifier, VotesForOneClassDecideTheOther) {
  auto out = RunNode(SmallClassifier({0, 0}, {0.25f, 0.75f}), {Floats({0, 2}, {2, 1})});
  EXPECT_EQ(Elements<int64_t>(out[0]), (Ints{7, 8}));
  EXPECT_EQ(Elements<float>(out[1]), (FloatList{0.75f, 0.25f, 0.25f, 0.75f}));
  Node margin = SmallClassifier({0, 0}, {-2, 2});
  margin.Set("post_transform", std::string("LOGISTIC"));
  out = RunNode(margin, {Floats({0, 2}, {2, 1})});
  EXPECT_EQ(Elements<int64_t>(out[0]), (Ints{7, 8}));
  EXPECT_THAT(Elements<float>(out[1]), ElementsAre(Near(0.880797f), Near(0.119203f), Near(0.119203f), Near(0.880797f)));
}

TEST(TreeEnsembleClassifier, RefusesHostileTrees) {
  Node circle = SmallClassifier({0, 1}, {1, 1});
  circle.Set("nodes_truenodeids", Ints{0, 0, 0});
  EXPECT_THAT(ErrorOf([&] { RunNode(circle, {Floats({0}, {1, 1})}); }), HasSubstr("runs in a circle"));
  Node lost = SmallClassifier({0, 1}, {1, 1});
  lost.Set("nodes_falsenodeids", Ints{99, 0, 0});
  EXPECT_THAT(ErrorOf([&] { RunNode(lost, {Floats({0}, {1, 1})}); }), HasSubstr("node 99, which does not exist"));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(SmallClassifier({0, 2}, {1, 1}), {Floats({0}, {1, 1})});
              }),
              HasSubstr("target 2 of 2"));
  Node wide = SmallClassifier({0, 1}, {1, 1});
  wide.Set("nodes_featureids", Ints{3, 0, 0});
  EXPECT_THAT(ErrorOf([&] { RunNode(wide, {Floats({0}, {1, 1})}); }), HasSubstr("feature 3, the input has 1"));
}

Node SmallRegressor(const char* aggregate) {
  return Ml("TreeEnsembleRegressor", {{"nodes_treeids", Ints{0, 1}},
                                      {"nodes_nodeids", Ints{0, 0}},
                                      {"nodes_featureids", Ints{0, 0}},
                                      {"nodes_modes", Strings{"LEAF", "LEAF"}},
                                      {"nodes_values", FloatList{0, 0}},
                                      {"nodes_truenodeids", Ints{0, 0}},
                                      {"nodes_falsenodeids", Ints{0, 0}},
                                      {"target_treeids", Ints{0, 1}},
                                      {"target_nodeids", Ints{0, 0}},
                                      {"target_ids", Ints{0, 0}},
                                      {"target_weights", FloatList{1, 5}},
                                      {"n_targets", int64_t{2}},
                                      {"base_values", FloatList{10, 20}},
                                      {"aggregate_function", std::string(aggregate)}});
}

TEST(TreeEnsembleRegressor, AggregatesThenAddsBaseValues) {
  Value x = Tensor::FromVector<double>({0}, {1, 1});
  EXPECT_EQ(Elements<float>(RunNode(SmallRegressor("SUM"), {x})[0]), (FloatList{16, 20}));
  EXPECT_EQ(Elements<float>(RunNode(SmallRegressor("AVERAGE"), {x})[0]), (FloatList{13, 20}));
  EXPECT_EQ(Elements<float>(RunNode(SmallRegressor("MIN"), {x})[0]), (FloatList{11, 20}));
  EXPECT_EQ(Elements<float>(RunNode(SmallRegressor("MAX"), {x})[0]), (FloatList{15, 20}));
  EXPECT_THAT(ErrorOf([&] { RunNode(SmallRegressor("MEAN"), {x}); }), HasSubstr("must be AVERAGE, SUM, MIN or MAX"));
}

// A chain of `depth` branches that ends in one leaf whichever way it goes.
Node Chain(int64_t depth, bool circle) {
  auto tensor = [](Tensor t) { return std::make_shared<StoredTensor>(MakeStored("", std::move(t))); };
  Ints next(static_cast<size_t>(depth)), leaf(next.size(), 0), zeros(next.size(), 0);
  for (int64_t i = 0; i < depth; ++i) next[static_cast<size_t>(i)] = i + 1;
  next.back() = 0;
  leaf.back() = circle ? 0 : 1;
  return Ml("TreeEnsemble", {{"nodes_splits", tensor(Tensor::Zeros(DType::kFloat, {depth}))},
                             {"nodes_modes", tensor(Tensor::Zeros(DType::kUInt8, {depth}))},
                             {"nodes_featureids", zeros},
                             {"nodes_truenodeids", next},
                             {"nodes_falsenodeids", next},
                             {"nodes_trueleafs", leaf},
                             {"nodes_falseleafs", leaf},
                             {"leaf_targetids", Ints{0}},
                             {"leaf_weights", tensor(Tensor::FromVector<float>({3}))},
                             {"tree_roots", Ints{0}},
                             {"n_targets", int64_t{1}}});
}

TEST(TreeEnsemble, WalksVeryDeepTreesAndRefusesCircles) {
  EXPECT_EQ(Elements<float>(RunNode(Chain(200000, false), {Floats({1}, {1, 1})})[0]), (FloatList{3}));
  EXPECT_THAT(ErrorOf([&] { RunNode(Chain(200000, true), {Floats({1}, {1, 1})}); }), HasSubstr("runs in a circle"));
  EXPECT_EQ(RunNode(Chain(3, false), {Tensor(DType::kFloat, {0, 1})})[0].tensor().shape(), (Shape{0, 1}));
}

TEST(TreeEnsemble, RefusesMissingSets) {
  Node node = Chain(1, false);
  node.Set("nodes_modes", std::make_shared<StoredTensor>(MakeStored("", Tensor::FromVector<uint8_t>({6}))));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Floats({1}, {1, 1})}); }), HasSubstr("'membership_values' ends before"));
}

}  // namespace
}  // namespace ferry
