// ElementwiseChain: several elementwise operators as one step. Its attribute "body" is a list of one graph whose inputs
// are the node's and which captures nothing. Made by the pipelines of providers that turn it into one kernel.
#include "ops/evaluate.h"
#include "ops/infer_graph.h"
#include "ops/operator.h"

namespace ferry {
namespace {

const Graph& BodyOf(const Node& node) {
  const Attribute* body = node.Find("body");
  auto* graphs = body ? std::get_if<std::vector<std::shared_ptr<Graph>>>(&body->held) : nullptr;
  if (!graphs || graphs->size() != 1 || !graphs->front()) Fail(ErrorCode::kInvalidModel, "attribute 'body' is missing");
  return *graphs->front();
}

void ComputeChain(OpContext& context) {
  const Graph& body = BodyOf(context.node());
  std::vector<Value> inputs;
  for (size_t i = 0; i < context.input_count(); ++i) inputs.push_back(context.InputValue(i));
  std::vector<Value> results = EvaluateGraph(body, inputs, context.services());
  for (size_t i = 0; i < results.size(); ++i)
    if (context.Wants(i)) context.SetOutput(i, std::move(results[i]));
}

void InferChain(InferContext& context) {
  const Graph& body = BodyOf(context.node());
  FactsByName known;
  for (size_t i = 0; i < body.inputs.size() && i < context.input_count(); ++i)
    known[body.inputs[i].name].type = context.InputType(i);
  const GraphFacts facts = InferGraph(body, known, {});
  for (size_t i = 0; i < body.outputs.size() && i < context.output_count(); ++i)
    if (const ValueFacts* made = facts.Find(body.outputs[i].name)) context.SetOutput(i, made->type);
}

}  // namespace

FERRY_OPERATOR_IN(internal, ElementwiseChain, {.compute = ComputeChain, .infer = InferChain});

}  // namespace ferry
