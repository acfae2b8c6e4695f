#include "ops/operator.h"

namespace ferry {
namespace {

void ComputeSequenceMap(OpContext& context) {
  Subgraph& body = context.subgraph("body");
  size_t length = context.InputValue(0).sequence().elements.size();
  for (size_t i = 1; i < context.input_count(); ++i) {
    const Value& value = context.InputValue(i);
    Require(!value.is_sequence() || value.sequence().elements.size() == length, "input 0 has ", length,
            " elements, input ", i, " has ", value.is_sequence() ? value.sequence().elements.size() : 0);
  }
  Require(body.input_count() == context.input_count(), "the body takes ", body.input_count(), " inputs, the node has ",
          context.input_count());
  Require(body.output_count() == context.output_count(), "the body has ", body.output_count(),
          " outputs, the node has ", context.output_count());
  std::vector<Sequence> results(body.output_count());
  std::vector<Value> inputs(context.input_count());
  for (size_t sample = 0; sample < length; ++sample) {
    context.CheckCancelled();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value& value = context.InputValue(i);
      inputs[i] = value.is_sequence() ? value.sequence().elements[sample] : value;
    }
    std::vector<Value> outputs = body.Run(inputs);
    for (size_t i = 0; i < results.size(); ++i) results[i].elements.push_back(std::move(outputs[i]));
  }
  for (size_t i = 0; i < results.size(); ++i) context.SetOutput(i, std::move(results[i]));
}

void InferSequenceMap(InferContext& context) {
  std::vector<ValueFacts> inputs(context.input_count());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& type = context.InputType(i);
    if (type.kind == Type::Kind::kSequence && type.element)
      inputs[i].type = *type.element;
    else if (type.kind != Type::Kind::kSequence)
      inputs[i] = context.InputFacts(i);
  }
  std::vector<ValueFacts> outputs = context.InferSubgraph("body", inputs);
  for (size_t i = 0; i < outputs.size(); ++i) context.SetOutput(i, Type::SequenceOf(std::move(outputs[i].type)));
}

}  // namespace

FERRY_OPERATOR(SequenceMap, {.compute = ComputeSequenceMap, .infer = InferSequenceMap, .has_subgraphs = true});

}  // namespace ferry
