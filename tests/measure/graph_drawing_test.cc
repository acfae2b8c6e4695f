#include "measure/graph_drawing.h"

#include <gtest/gtest.h>

#include "tests/support/graphs.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

Model Branching() {
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 2})},
                   {MakeNode("Relu", {"x"}, {"a"}), MakeNode("MatMul", {"a", "w"}, {"b"}),
                    MakeNode("Sigmoid", {"a"}, {"c"}), MakeNode("Mul", {"b", "c"}, {"y"})},
                   {MakeInfo("y", DType::kFloat)}, {MakeStored("w", Tensor::Zeros(DType::kFloat, {2, 2}))});
}

TEST(GraphDrawing, DrawsATrackForEachValue) {
  EXPECT_EQ(DrawGraph(Summarize(Branching(), {})),
            "○  input x  float[n, 2]\n"
            "●  Relu  a float[n, 2]\n"
            "├─●  MatMul  b float[n, 2]\n"
            "● │  Sigmoid  c float[n, 2]\n"
            "●─╯  Mul  y float[n, 2]\n"
            "◆    output y  float[n, 2]\n");
}

TEST(GraphDrawing, ANodeWithSeveralResultsBeginsSeveralTracks) {
  Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {4})},
      {MakeNode("Split", {"x"}, {"a", "b"}, {{"num_outputs", int64_t{2}}}), MakeNode("Add", {"a", "b"}, {"y"})},
      {MakeInfo("y", DType::kFloat)});
  EXPECT_EQ(DrawGraph(Summarize(model, {})),
            "○  input x  float[4]\n"
            "●─╮  Split  a float[2]  b float[2]\n"
            "●─╯  Add  y float[2]\n"
            "◆    output y  float[2]\n");
}

TEST(LayerTable, CountsEachWeightOnceAndKeepsNamesOfDimensions) {
  Model model = Branching();
  model.graph.nodes.push_back(MakeNode("MatMul", {"y", "w"}, {"z"}));
  model.graph.outputs = {MakeInfo("z", DType::kFloat)};
  ModelSummary summary = Summarize(model, {{"n", 3}});
  ASSERT_EQ(summary.layers.size(), 5u);
  const LayerInfo& product = summary.layers[1];
  EXPECT_EQ(product.op, "MatMul");
  EXPECT_EQ(product.inputs, std::vector<std::string>{"a"});
  EXPECT_EQ(ToText(product.outputs[0].type), "float[n, 2]");
  EXPECT_EQ(product.parameters, 4);
  EXPECT_EQ(summary.layers[4].parameters, 0) << "counted already";
  EXPECT_EQ(product.multiply_adds, 3 * 2 * 2);
  EXPECT_EQ(product.output_bytes, 3 * 2 * 4);
  std::vector<OperatorCost> costs = CostByOperator(summary.layers);
  EXPECT_EQ(costs[0].op, "MatMul");
  EXPECT_EQ(costs[0].nodes, 2);
  EXPECT_EQ(costs[0].multiply_adds, 2 * 3 * 2 * 2);
  EXPECT_EQ(costs.size(), 4u);
}

}  // namespace
}  // namespace ferry
