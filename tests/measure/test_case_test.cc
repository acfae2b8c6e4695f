#include "measure/test_case.h"

#include <gtest/gtest.h>

#include "measure/randomness.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

const std::string kCases = std::string(FERRY_TEST_DATA) + "/onnx-node";

TEST(TestCase, FindsAFolderOfCases) {
  std::vector<TestCase> cases = FindTestCases(kCases);
  EXPECT_EQ(cases.size(), 1666u);
  std::vector<TestCase> one = FindTestCases(kCases + "/test_relu/");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].name, "test_relu");
  EXPECT_THROW(FindTestCases(kCases + "/no_such_case"), Error);
}

TEST(Randomness, FollowsADrawToTheOutputs) {
  Model model = MakeModel({MakeInfo("x")},
                          {MakeNode("Bernoulli", {"x"}, {"b"}), MakeNode("Cast", {"b"}, {"c"}, {{"to", int64_t{1}}}),
                           MakeNode("Add", {"c", "x"}, {"sum"}), MakeNode("Relu", {"x"}, {"calm"})},
                          {MakeInfo("c"), MakeInfo("sum"), MakeInfo("calm")});
  auto random = FindRandomValues(model);
  ASSERT_TRUE(random.count("c"));
  EXPECT_EQ(random["c"].least, 0);
  EXPECT_EQ(random["c"].most, 1);
  EXPECT_TRUE(random["c"].whole);
  ASSERT_TRUE(random.count("sum"));
  EXPECT_FALSE(random["sum"].whole);
  EXPECT_FALSE(random.count("calm"));
}

TEST(Randomness, ADropoutWithASeedIsDefined) {
  auto with = [](std::vector<Attribute> attributes) {
    return FindRandomValues(MakeModel({MakeInfo("x"), MakeInfo("ratio"), MakeInfo("training", DType::kBool)},
                                      {MakeNode("Dropout", {"x", "ratio", "training"}, {"y"}, std::move(attributes))},
                                      {MakeInfo("y")}));
  };
  EXPECT_TRUE(with({{"seed", int64_t{7}}}).empty());
  EXPECT_FALSE(with({}).empty());
}

TEST(Randomness, LooksIntoBodiesAndFunctions) {
  auto body = std::make_shared<Graph>();
  body->nodes = {MakeNode("RandomNormal", {}, {"r"}, {{"shape", std::vector<int64_t>{2}}})};
  body->outputs = {MakeInfo("r")};
  Model branch =
      MakeModel({MakeInfo("c", DType::kBool)},
                {MakeNode("If", {"c"}, {"y"}, {{"then_branch", body}, {"else_branch", body}})}, {MakeInfo("y")});
  EXPECT_TRUE(FindRandomValues(branch).count("y"));
  Function function;
  function.name = "Noise";
  function.domain = "local";
  function.outputs = {"r"};
  function.nodes = body->nodes;
  Node call = MakeNode("Noise", {}, {"y"});
  call.domain = "local";
  Model calling = MakeModel({}, {call}, {MakeInfo("y")});
  calling.functions.push_back(function);
  EXPECT_TRUE(FindRandomValues(calling).count("y"));
}

TEST(Randomness, ADrawMustFitTypeShapeAndRange) {
  RandomRange zero_or_one{.least = 0, .most = 1, .whole = true};
  Value recorded = Tensor::FromVector<float>({0, 1, 1});
  EXPECT_EQ(ExplainBadDraw(Tensor::FromVector<float>({1, 1, 0}), recorded, zero_or_one), "");
  EXPECT_NE(ExplainBadDraw(Tensor::FromVector<float>({1, 0.5f, 0}), recorded, zero_or_one), "");
  EXPECT_NE(ExplainBadDraw(Tensor::FromVector<float>({2, 1, 0}), recorded, zero_or_one), "");
  EXPECT_NE(ExplainBadDraw(Tensor::FromVector<float>({1, 0}), recorded, zero_or_one), "");
  EXPECT_NE(ExplainBadDraw(Tensor::FromVector<double>({1, 1, 0}), recorded, zero_or_one), "");
}

}  // namespace
}  // namespace ferry
