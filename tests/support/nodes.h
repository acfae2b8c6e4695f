// Running and inferring one node in a line, for tests of operators.
#pragma once

#include <string>
#include <vector>

#include "ops/evaluate.h"
#include "ops/operator.h"
#include "tests/support/graphs.h"

namespace ferry::testing {

// A node with as many inputs and outputs as asked for; names are made up.
inline Node OneNode(std::string op, size_t inputs, std::vector<Attribute> attributes = {}, std::string_view domain = "",
                    size_t outputs = 1) {
  std::vector<std::string> input_names, output_names;
  for (size_t i = 0; i < inputs; ++i) input_names.push_back("in" + std::to_string(i));
  for (size_t i = 0; i < outputs; ++i) output_names.push_back("out" + std::to_string(i));
  Node node = MakeNode(std::move(op), std::move(input_names), std::move(output_names), std::move(attributes));
  node.domain = domain;
  return node;
}

// A Value that is not present stands for an omitted input.
inline std::vector<Value> RunNode(const Node& node, const std::vector<Value>& inputs) {
  std::vector<const Value*> pointers;
  for (const Value& input : inputs) pointers.push_back(input.present() ? &input : nullptr);
  return EvaluateNode(node, pointers, RunServices{});
}

inline std::vector<ValueFacts> InferNode(const Node& node, const std::vector<ValueFacts>& inputs) {
  std::vector<const ValueFacts*> pointers;
  for (const ValueFacts& input : inputs) pointers.push_back(&input);
  InferContext context(node, pointers, node.outputs.size());
  FindOperator(node.domain, node.op_type)->infer(context);
  return context.outputs();
}

template <class T>
std::vector<T> Elements(const Value& value) {
  auto span = value.tensor().Span<T>();
  return {span.begin(), span.end()};
}

// What a call that must fail says; "no error" when it does not.
template <class Call>
std::string ErrorOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace ferry::testing
