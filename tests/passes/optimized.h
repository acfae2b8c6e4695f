// A graph run as it is written and after the passes: the answers must agree, and the graph must have become what is
// expected.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/evaluate.h"
#include "providers/cpu/pipeline.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry::testing {

inline StoredTensor Scalar(const std::string& name, float value) {
  Tensor tensor(DType::kFloat, {});
  *tensor.MutableData<float>() = value;
  return MakeStored(name, tensor);
}

inline StoredTensor Ints(const std::string& name, std::vector<int64_t> values) {
  Tensor tensor(DType::kInt64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.MutableData<int64_t>());
  return MakeStored(name, tensor);
}

inline Attribute Perm(std::vector<int64_t> axes) {
  Node node;
  node.Set("perm", std::move(axes));
  return node.attributes[0];
}

inline int64_t Count(const Graph& graph, const std::string& op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op_type == op; });
}

// Gives the optimised graph.
inline Graph HoldAgainstOptimized(const Model& model, const std::vector<Value>& inputs) {
  Graph graph = CopyDeep(model).graph;
  Optimize(graph);
  std::vector<Value> expected = EvaluateGraph(model.graph, inputs, RunServices{});
  std::vector<Value> got = EvaluateGraph(graph, inputs, RunServices{});
  EXPECT_EQ(expected.size(), got.size());
  for (size_t n = 0; n < expected.size() && n < got.size(); ++n) {
    const Tensor &a = expected[n].tensor(), &b = got[n].tensor();
    EXPECT_TRUE(a.shape() == b.shape()) << ToText(a.shape()) << " " << ToText(b.shape());
    if (!(a.shape() == b.shape())) continue;
    for (int64_t i = 0; i < a.size(); ++i) {
      float x = a.Data<float>()[i], y = b.Data<float>()[i];
      EXPECT_EQ(std::isnan(x), std::isnan(y));
      if (!std::isnan(x)) {
        EXPECT_NEAR(x, y, 1e-5f * (1 + std::abs(x))) << i;
      }
    }
  }
  return graph;
}

}  // namespace ferry::testing
