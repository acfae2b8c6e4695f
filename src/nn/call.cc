#include "nn/call.h"

#include <thread>

#include "base/error.h"
#include "base/thread_pool.h"
#include "onnx/schema.h"
#include "ops/evaluate.h"
#include "ops/infer_graph.h"

namespace ferry {
namespace {

ThreadPool& SharedPool() {
  static ThreadPool pool(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  return pool;
}

void CheckAttributes(const Node& call, const Schema& schema) {
  for (const Attribute& attribute : call.attributes) {
    const SchemaAttribute* known = schema.FindAttribute(attribute.name);
    if (!known) {
      std::vector<std::string> names;
      for (const SchemaAttribute& one : schema.attributes()) names.emplace_back(one.name());
      std::string near = ClosestName(attribute.name, names);
      Fail(ErrorCode::kInvalidArgument, Describe(call), ": there is no attribute '", Printable(attribute.name), "'",
           near.empty() ? "" : Cat("; did you mean '", near, "'?"));
    }
    Require(attribute.type == known->type, Describe(call), ": attribute '", Printable(attribute.name), "' is of type ",
            Name(known->type), ", not ", Name(attribute.type));
  }
  for (const SchemaAttribute& known : schema.attributes())
    Require(!known.required || call.Has(known.name()), Describe(call), ": lacks the attribute '", known.name(), "'");
}

void CheckInputs(const Node& call, const Schema& schema, std::span<const Value* const> inputs) {
  Require(inputs.size() >= schema.min_inputs && inputs.size() <= schema.max_inputs, Describe(call), ": takes ",
          schema.min_inputs, " to ", schema.max_inputs, " inputs, got ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const SchemaParameter& parameter = *schema.InputAt(i);
    bool given = inputs[i] && inputs[i]->present();
    Require(given || parameter.option != SchemaParameter::Option::kSingle, Describe(call), ": lacks input ", i, " ('",
            parameter.name(), "')");
    if (!given) continue;
    Type type = TypeOf(*inputs[i]);
    Require(schema.TypesOf(parameter).Contains(FindSchemaType(type)), Describe(call), ": input ", i, " ('",
            parameter.name(), "') may not be ", OnnxTypeName(type));
  }
}

}  // namespace

std::vector<Value> RunCall(const Node& call, std::span<const Value* const> inputs, size_t output_count) {
  const Schema* schema = FindSchema(call.domain, call.op_type, NewestOpset(call.domain));
  if (!schema || schema->deprecated)
    Fail(ErrorCode::kInvalidArgument, Describe(call), ": ONNX has no such operator", schema ? " any more" : "");
  CheckAttributes(call, *schema);
  CheckInputs(call, *schema, inputs);
  Require(output_count >= std::max<size_t>(1, schema->min_outputs) && output_count <= schema->max_outputs,
          Describe(call), ": gives ", schema->min_outputs, " to ", schema->max_outputs, " outputs, not ", output_count);
  Node node = call;
  for (size_t i = 0; i < output_count; ++i) node.outputs.push_back(std::to_string(i));
  std::vector<Value> results = EvaluateNode(node, inputs, {.pool = &SharedPool()});
  for (size_t i = 0; i < results.size(); ++i)
    Require(results[i].present(), Describe(call), ": gives no output ", i, " with these inputs and attributes");
  return results;
}

}  // namespace ferry
