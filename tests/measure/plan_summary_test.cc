#include "measure/plan_summary.h"

#include <gtest/gtest.h>

#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;

StoredTensor Weight(const char* name, Shape shape) { return MakeStored(name, Tensor::Zeros(DType::kFloat, shape)); }

Model TwoLayers() {
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("batch"), 10})},
                   {MakeNode("Gemm", {"x", "w", "b"}, {"h"}), MakeNode("Relu", {"h"}, {"r"}),
                    MakeNode("Gemm", {"r", "v", "c"}, {"y"})},
                   {MakeInfo("y")}, {Weight("w", {10, 16}), Weight("b", {16}), Weight("v", {16, 3}), Weight("c", {3})});
}

TEST(PlanSummary, NamesWhoRunsWhatAndWhereResultsLie) {
  const PlanSummary plan = SummarizePlan(TwoLayers(), {{"batch", 4}});
  ASSERT_EQ(plan.steps.size(), 2u);  // the activation belongs to the product before it
  EXPECT_EQ(plan.steps[0].provider, "cpu");
  EXPECT_EQ(plan.steps[0].algorithm, "packed gemm");
  ASSERT_EQ(plan.steps[0].outputs.size(), 1u);
  EXPECT_EQ(plan.steps[0].outputs[0].type, "float[4, 16]");
  EXPECT_EQ(plan.steps[0].outputs[0].bytes, 4u * 16 * 4);
  EXPECT_EQ(plan.steps[0].outputs[0].place, "arena");
  EXPECT_EQ(plan.steps[0].outputs[0].offset, 0u);
  EXPECT_EQ(plan.steps[1].outputs[0].place, "result");
  EXPECT_EQ(plan.arena_bytes, (std::map<std::string, size_t>{{"host", 256}}));
  EXPECT_EQ(plan.weight_bytes, (std::map<std::string, size_t>{{"host", (160 + 16 + 48 + 3) * 4}}));
}

TEST(PlanSummary, AsWrittenHasEveryNode) {
  SessionOptions options;
  options.optimize = false;
  EXPECT_EQ(SummarizePlan(TwoLayers(), {}, options).steps.size(), 3u);
}

TEST(PlanSummary, GoesIntoBodies) {
  auto body = [](const char* op) {
    auto graph = std::make_shared<Graph>();
    graph->name = op;
    graph->nodes = {MakeNode(op, {"x"}, {Cat("of ", op)})};
    graph->outputs = {MakeInfo(Cat("of ", op))};
    return graph;
  };
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {2}), MakeInfo("c", DType::kBool, {})},
      {MakeNode("If", {"c"}, {"y"}, {Attribute("then_branch", body("Sin")), Attribute("else_branch", body("Cos"))})},
      {MakeInfo("y")});
  const PlanSummary plan = SummarizePlan(model, {});
  ASSERT_EQ(plan.steps.size(), 3u);
  EXPECT_EQ(plan.steps[0].op, "If");
  EXPECT_EQ(plan.steps[1].depth, 1u);
  EXPECT_EQ(plan.steps[2].op, "Cos");
}

TEST(PlanSummary, CountsWhatIsSizedWhileRunning) {
  const Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {2})},
                {MakeNode("NonZero", {"x"}, {"i"}), MakeNode("Cast", {"i"}, {"y"}, {Attribute("to", int64_t{1})})},
                {MakeInfo("y")});
  const PlanSummary plan = SummarizePlan(model, {});
  EXPECT_EQ(plan.dynamic_values, 1u);
  EXPECT_EQ(plan.steps[0].outputs[0].place, "dynamic");
}

TEST(PlanSummary, JsonHasTheWholeOfIt) {
  const Json json = ToJson(SummarizePlan(TwoLayers(), {{"batch", 2}}));
  EXPECT_EQ(json.At("dimensions").At("batch").AsInt(), 2);
  EXPECT_EQ(json.At("steps_by_provider").At("cpu").AsInt(), 2);
  EXPECT_EQ(json.At("steps").AsArray()[0].At("outputs").AsArray()[0].At("space").AsString(), "host");
}

}  // namespace
}  // namespace ferry
