// The plainest way to run a graph: node after node, every value in its own memory. Constant folding uses it, and tests
// hold the engine against it. Functions must be inlined and opsets upgraded beforehand.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/model.h"
#include "ops/context.h"

namespace ferry {

// Finds a value by name in the scopes around a graph; null when there is none.
using OuterScope = std::function<const Value*(const std::string&)>;

// Runs one node. Errors name the node and the shapes of its inputs.
std::vector<Value> EvaluateNode(const Node& node, std::span<const Value* const> inputs, const RunServices& services,
                                const OuterScope& outer = {});

// Runs a graph; `inputs` are by position. When `all` is given, every intermediate value is kept in it by name.
std::vector<Value> EvaluateGraph(const Graph& graph, std::span<const Value> inputs, const RunServices& services,
                                 const OuterScope& outer = {}, std::map<std::string, Value>* all = nullptr);

// Has the strings of a step's outputs counted as they are now; see Buffer::SettleText.
void SettleText(std::span<Value* const> outputs);

// "float[2, 3], int64[4]": the inputs of a node as errors show them.
std::string DescribeInputs(std::span<const Value* const> inputs);

}  // namespace ferry
