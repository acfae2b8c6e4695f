// Types, shapes and known values of everything in a graph, from its inputs forward.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "ops/infer_context.h"
#include "tensor/value.h"

namespace ferry {

using FactsByName = std::unordered_map<std::string, ValueFacts>;

struct InferOptions {
  // Nodes whose inputs are all constants are computed when the result has at most this many elements.
  int64_t largest_computed = 4096;
  // Weights that cannot be read where they lie are constants all the same, for those who can.
  bool weights_anywhere = false;
  // Inputs with defaults may be given other values: only what is declared of them holds.
  bool defaults_may_change = false;
  // Told of each node whose rule finds a contradiction; its outputs stay unknown. Without it the first one is thrown.
  std::function<void(const Node&, const Error&)> on_error;
};

struct GraphFacts {
  FactsByName values;                                    // of the graph itself
  std::unordered_map<const Graph*, FactsByName> bodies;  // of every body inside its nodes
  const ValueFacts* Find(const std::string& name) const {
    auto it = values.find(name);
    return it == values.end() ? nullptr : &it->second;
  }
};

// `inputs` says more of some graph inputs than the graph declares (concrete shapes, values); it also stands in for an
// initializer of the same name. Functions must be inlined and opsets upgraded.
GraphFacts InferGraph(const Graph& graph, const FactsByName& inputs, const InferOptions& options = {});

// Adds what `facts`, found for this graph before passes rewrote it, lacks: new values. Passes keep the names of the
// values they leave, so what is known of a name stays true. Nodes whose rule fails leave their outputs unknown.
void InferNew(const Graph& graph, GraphFacts& facts);

// One node at a time, for whoever builds a graph: `known` finds the facts of the node's inputs by name.
using OuterFacts = std::function<const ValueFacts*(const std::string&)>;
std::vector<ValueFacts> InferNode(const Node& node, const OuterFacts& known, const InferOptions& options = {});

// The facts of a constant: its type and, for short integer tensors, its elements.
ValueFacts FactsOf(const Tensor& constant);
// What is known of a value that is at hand, without its elements.
Type TypeOf(const Value& value);

}  // namespace ferry
