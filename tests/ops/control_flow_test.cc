#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/infer_graph.h"
#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;
using testing::RunNode;
using Ints = std::vector<int64_t>;

std::shared_ptr<Graph> Body(std::vector<ValueInfo> inputs, std::vector<Node> nodes, std::vector<ValueInfo> outputs) {
  return std::make_shared<Graph>(MakeModel(std::move(inputs), std::move(nodes), std::move(outputs)).graph);
}

// carried grows by itself; what it was is stacked up.
Node GrowingLoop() {
  auto body = Body({MakeInfo("i", DType::kInt64, {}), MakeInfo("c", DType::kBool, {}), MakeInfo("v", DType::kInt64)},
                   {MakeNode("Concat", {"v", "v"}, {"w"}, {{"axis", int64_t{0}}}), MakeNode("Identity", {"c"}, {"d"}),
                    MakeNode("Identity", {"i"}, {"s"})},
                   {MakeInfo("d", DType::kBool), MakeInfo("w", DType::kInt64), MakeInfo("s", DType::kInt64, {})});
  return MakeNode("Loop", {"trips", "cond", "start"}, {"grown", "steps"}, {{"body", body}});
}

TEST(Loop, CarriesValuesThatChangeTheirShape) {
  auto out = RunNode(GrowingLoop(), {Tensor::Scalar(int64_t{3}), Value(), Tensor::FromVector<int64_t>({7})});
  EXPECT_EQ(Elements<int64_t>(out[0]), (Ints{7, 7, 7, 7, 7, 7, 7, 7}));
  EXPECT_EQ(Elements<int64_t>(out[1]), (Ints{0, 1, 2}));
}

TEST(Loop, WithoutATripGivesTheStartAndEmptyStacks) {
  auto out =
      RunNode(GrowingLoop(), {Tensor::Scalar(int64_t{5}), Tensor::Scalar(false), Tensor::FromVector<int64_t>({7})});
  EXPECT_EQ(Elements<int64_t>(out[0]), (Ints{7}));
  EXPECT_EQ(out[1].tensor().shape(), Shape{0});
  EXPECT_EQ(out[1].tensor().dtype(), DType::kInt64);
  EXPECT_EQ(Elements<int64_t>(
                RunNode(GrowingLoop(), {Tensor::Scalar(int64_t{-5}), Value(), Tensor::FromVector<int64_t>({7})})[0]),
            (Ints{7}));
}

TEST(Loop, StopsAtTheLimitAndWhenCancelled) {
  auto body = Body({MakeInfo("i", DType::kInt64, {}), MakeInfo("c", DType::kBool, {})},
                   {MakeNode("Identity", {"c"}, {"d"})}, {MakeInfo("d", DType::kBool)});
  Node node = MakeNode("Loop", {"", "cond"}, {}, {{"body", body}});
  Value go = Tensor::Scalar(true);
  std::vector<const Value*> inputs{nullptr, &go};
  RunServices services;
  services.max_iterations = 10;
  EXPECT_THAT(ErrorOf([&] { EvaluateNode(node, inputs, services); }), HasSubstr("has run 10 times"));
  std::atomic<bool> cancelled = true;
  services.cancelled = &cancelled;
  EXPECT_THAT(ErrorOf([&] { EvaluateNode(node, inputs, services); }), HasSubstr("cancelled"));
}

TEST(Loop, InfersOnlyWhatHoldsForEveryTrip) {
  Model model = MakeModel({MakeInfo("start", DType::kInt64, {1})}, {GrowingLoop()},
                          {MakeInfo("grown"), MakeInfo("steps")}, {MakeStored("trips", Tensor::Scalar(int64_t{3}))});
  model.graph.nodes[0].inputs[1] = "";
  GraphFacts facts = InferGraph(model.graph, {});
  EXPECT_EQ(ToText(facts.Find("grown")->type), "int64[?]");
  EXPECT_EQ(ToText(facts.Find("steps")->type), "int64[3]");
}

TEST(Scan, WalksAxesInBothDirections) {
  auto body = Body({MakeInfo("sum", DType::kInt64), MakeInfo("x", DType::kInt64)},
                   {MakeNode("Concat", {"sum", "x"}, {"next_all"}, {{"axis", int64_t{0}}}),
                    MakeNode("Identity", {"x"}, {"y"}), MakeNode("Identity", {"sum"}, {"next"})},
                   {MakeInfo("next", DType::kInt64), MakeInfo("y", DType::kInt64)});
  Node node = MakeNode("Scan", {"start", "xs"}, {"end", "ys"},
                       {{"body", body},
                        {"num_scan_inputs", int64_t{1}},
                        {"scan_input_axes", Ints{1}},
                        {"scan_input_directions", Ints{1}},
                        {"scan_output_axes", Ints{-1}},
                        {"scan_output_directions", Ints{0}}});
  Value start = Tensor::FromVector<int64_t>({0}), xs = Tensor::FromVector<int64_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  auto out = RunNode(node, {start, xs});
  EXPECT_EQ(out[1].tensor().shape(), (Shape{2, 3}));
  EXPECT_EQ(Elements<int64_t>(out[1]), (Ints{3, 2, 1, 6, 5, 4}));
  node.Set("scan_output_directions", Ints{1});
  EXPECT_EQ(Elements<int64_t>(RunNode(node, {start, xs})[1]), (Ints{1, 2, 3, 4, 5, 6}));
  auto empty = RunNode(node, {start, Tensor::FromVector<int64_t>({}, {2, 0})});
  EXPECT_EQ(empty[1].tensor().shape(), (Shape{2, 0}));
  node.Set("scan_input_directions", Ints{2});
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {start, xs}); }), HasSubstr("must be 0 or 1"));
  node.Set("num_scan_inputs", int64_t{3});
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {start, xs}); }), HasSubstr("num_scan_inputs is 3"));
}

TEST(Scan, RefusesOutputsThatChangeTheirShape) {
  auto body = Body({MakeInfo("v", DType::kInt64), MakeInfo("x", DType::kInt64)},
                   {MakeNode("Concat", {"v", "v"}, {"w"}, {{"axis", int64_t{0}}}), MakeNode("Identity", {"v"}, {"y"})},
                   {MakeInfo("w", DType::kInt64), MakeInfo("y", DType::kInt64)});
  Node node = MakeNode("Scan", {"start", "xs"}, {"end", "ys"}, {{"body", body}, {"num_scan_inputs", int64_t{1}}});
  EXPECT_THAT(ErrorOf([&] {
                RunNode(node, {Tensor::FromVector<int64_t>({0}), Tensor::FromVector<int64_t>({1, 2})});
              }),
              HasSubstr("in iteration 1"));
}

TEST(If, JoinsWhatBothBranchesGive) {
  auto branch = [](const char* name, int64_t rows) {
    Model model =
        MakeModel({}, {MakeNode("Constant", {}, {name}, {{"value_ints", Ints(static_cast<size_t>(rows), 1)}})},
                  {MakeInfo(name, DType::kInt64)});
    return std::make_shared<Graph>(model.graph);
  };
  Node node = MakeNode("If", {"cond"}, {"y"}, {{"then_branch", branch("a", 2)}, {"else_branch", branch("b", 3)}});
  EXPECT_EQ(RunNode(node, {Tensor::Scalar(false)})[0].tensor().shape(), Shape{3});
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {Tensor::FromVector<bool>({true, false})}); }), HasSubstr("single element"));
  Model open = MakeModel({MakeInfo("cond", DType::kBool, {})}, {node}, {MakeInfo("y")});
  EXPECT_EQ(ToText(InferGraph(open.graph, {}).Find("y")->type), "int64[?]");
  Model decided = MakeModel({}, {node}, {MakeInfo("y")}, {MakeStored("cond", Tensor::Scalar(true))});
  EXPECT_EQ(ToText(InferGraph(decided.graph, {}).Find("y")->type), "int64[2]");
}

}  // namespace
}  // namespace ferry
