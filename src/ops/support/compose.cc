#include "ops/support/compose.h"

#include <algorithm>

#include "ops/evaluate.h"
#include "ops/infer_graph.h"
#include "ops/support/scalar.h"

namespace ferry {
namespace {

class ComposedRun final : public Composer {
 public:
  ComposedRun(OpContext& context, Terms inputs)
      : Composer(context.node(), std::move(inputs)), services_(context.services()) {}

 private:
  Terms Perform(const Node& call, const Terms& inputs) override {
    std::vector<Value> held(inputs.size());
    std::vector<const Value*> values(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i]) {
        held[i] = inputs[i].value();
        values[i] = &held[i];
      }
    Terms results;
    for (Value& value : EvaluateNode(call, values, services_)) {
      Require(value.is_tensor(), "the result of ", call.op_type, " is no tensor");
      results.push_back(Hold(value.tensor()));
    }
    return results;
  }
  Term Hold(Tensor tensor) override { return {FreshName(), FactsOf(tensor)}; }

  const RunServices& services_;
};

class ComposedInference final : public Composer {
 public:
  using Composer::Composer;

 private:
  Terms Perform(const Node& call, const Terms& inputs) override {
    std::vector<ValueFacts> facts = InferNode(call, [&](const std::string& name) -> const ValueFacts* {
      for (const Term& input : inputs)
        if (input.name == name) return &input.facts;
      return nullptr;
    });
    facts.resize(call.outputs.size());
    Terms results;
    for (size_t i = 0; i < facts.size(); ++i) results.push_back({call.outputs[i], std::move(facts[i])});
    return results;
  }
  Term Hold(Tensor tensor) override { return {FreshName(), FactsOf(tensor)}; }
};

}  // namespace

DType Term::type() const {
  if (facts.type.dtype == DType::kUndefined) throw NotKnownYet();
  return facts.type.dtype;
}

const SymbolicShape& Term::shape() const {
  if (!facts.type.shape) throw NotKnownYet();
  return *facts.type.shape;
}

size_t Term::rank() const { return shape().size(); }

int64_t Term::size(int64_t axis) const {
  const Dim& dim = shape()[NormalizeAxis(axis, rank())];
  if (!dim.known()) throw NotKnownYet();
  return *dim.value;
}

const Tensor& Term::value() const {
  if (!facts.constant) throw NotKnownYet();
  return *facts.constant;
}

const Term& Composer::In(size_t i) const {
  static const Term kOmitted;
  return i < inputs_.size() ? inputs_[i] : kOmitted;
}

void Composer::Out(size_t i, Term term) {
  if (Wants(i)) outputs_[i] = std::move(term);
}

Term Composer::Call(std::string_view op, Terms inputs, Attributes attributes) {
  return std::move(CallMany(op, std::move(inputs), 1, std::move(attributes))[0]);
}

Composer::Terms Composer::CallMany(std::string_view op, Terms inputs, size_t outputs, Attributes attributes,
                                   std::string_view domain) {
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  Node call;
  call.name = node_.name;
  call.op_type = op;
  call.domain = domain;
  call.attributes = std::move(attributes);
  for (const Term& input : inputs) call.inputs.push_back(input.name);
  for (size_t i = 0; i < outputs; ++i) call.outputs.push_back(FreshName());
  return Perform(call, inputs);
}

Term Composer::Constant(Tensor tensor) { return Hold(std::move(tensor)); }

Term Composer::Number(double value, DType type) {
  Tensor tensor(type, {});
  StoreDoubles({&value, 1}, tensor);
  return Constant(std::move(tensor));
}

Term Composer::Cast(Term term, DType type) {
  if (term.type() == type) return term;
  return Call("Cast", {std::move(term)}, {{"to", static_cast<int64_t>(type)}});
}

Term Composer::Reshape(Term term, std::vector<int64_t> shape) {
  return Call("Reshape", {std::move(term), Ints(std::move(shape))});
}

Term Composer::Transpose(Term term, std::vector<int64_t> order) {
  return Call("Transpose", {std::move(term)}, {{"perm", std::move(order)}});
}

Term Composer::Widen(Term term) {
  if (!term || (term.type() != DType::kFloat16 && term.type() != DType::kBFloat16)) return term;
  return Cast(std::move(term), DType::kFloat);
}

Term Composer::Slice(Term term, int64_t axis, int64_t begin, int64_t end) {
  return Call("Slice", {std::move(term), Ints({begin}), Ints({end}), Ints({axis})});
}

Composer::Attributes Composer::Keep(std::initializer_list<std::string_view> names) const {
  Attributes kept;
  for (std::string_view name : names)
    if (const Attribute* attribute = node_.Find(name)) kept.push_back(*attribute);
  return kept;
}

void RunComposed(Compose compose, OpContext& context) {
  Composer::Terms inputs(context.input_count());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (context.Has(i)) inputs[i] = {Cat("input ", i), FactsOf(context.Input(i))};
  ComposedRun run(context, std::move(inputs));
  try {
    compose(run);
  } catch (const NotKnownYet&) {
    Fail(ErrorCode::kInternal, "a value is missing");
  }
  for (size_t i = 0; i < run.outputs().size(); ++i)
    if (run.outputs()[i]) context.SetOutput(i, run.outputs()[i].value());
}

void InferComposed(Compose compose, InferContext& context) {
  Composer::Terms inputs(context.input_count());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (context.Has(i)) inputs[i] = {Cat("input ", i), context.InputFacts(i)};
  ComposedInference inference(context.node(), std::move(inputs));
  try {
    compose(inference);
  } catch (const NotKnownYet&) {
    return;  // the run will tell
  }
  for (size_t i = 0; i < inference.outputs().size() && i < context.output_count(); ++i)
    if (inference.outputs()[i]) context.SetOutputFacts(i, inference.outputs()[i].facts);
}

Compose FindComposition(std::string_view domain, std::string_view name) {
  for (size_t i = 0; i < kCompositionTableSize; ++i)
    if (kCompositionTable[i]->name == name && kCompositionTable[i]->domain == CanonicalDomain(domain))
      return kCompositionTable[i]->compose;
  return nullptr;
}

}  // namespace ferry
