// Small questions that passes ask about a graph.
#pragma once

#include <optional>
#include <string_view>

#include "graph/editor.h"
#include "graph/standard.h"

namespace ferry {

// Has the graph a node of one of these operators? Asked before an editor is made: most passes find nothing to do.
bool HasAny(const Graph& graph, std::initializer_list<std::string_view> ops);

// The node that makes a value when it is of this kind, else null.
const Node* MadeBy(const GraphEditor& editor, const std::string& value, std::string_view op);
// The same when nothing else needs the value.
const Node* MadeOnlyBy(const GraphEditor& editor, const std::string& value, std::string_view op);

// A float constant of one element.
std::optional<float> ScalarConstant(const GraphEditor& editor, const std::string& value);
// One operand of a commutative node of two inputs is a scalar constant: its value, and the other operand.
struct WithScalar {
  float scalar;
  std::string other;
};
std::optional<WithScalar> ScalarOperand(const GraphEditor& editor, const Node& node);

// Do the axes of a reduction over an image [N, C, …] name every axis behind the channels, and no other?
bool CoversSpatialAxes(const Tensor& axes, size_t rank);

bool IsPermutation(const Node& transpose, std::initializer_list<int64_t> permutation);

}  // namespace ferry
