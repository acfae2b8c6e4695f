#include "ops/support/compose.h"

#include "ops/evaluate.h"
#include "ops/infer_graph.h"
#include "ops/support/scalar.h"

namespace ferry {
namespace {

class ComposedRun final : public Composer {
 public:
  explicit ComposedRun(OpContext& context) : Composer(context.node()), services_(context.services()) {}

 private:
  std::vector<ValueFacts> Perform(const Node& call, ListOf<Term> inputs) override {
    std::vector<Value> held(inputs.size);
    std::vector<const Value*> values(inputs.size);
    for (size_t i = 0; i < inputs.size; ++i)
      if (inputs.data[i]) {
        held[i] = inputs.data[i].value();
        values[i] = &held[i];
      }
    std::vector<ValueFacts> results;
    for (Value& value : EvaluateNode(call, values, services_)) {
      Require(value.is_tensor(), "the result of ", call.op_type, " is no tensor");
      results.push_back(FactsOf(value.tensor()));
    }
    return results;
  }
  Term Hold(Tensor tensor) override { return Make(FreshName(), FactsOf(tensor)); }

  const RunServices& services_;
};

class ComposedInference final : public Composer {
 public:
  using Composer::Composer;

 private:
  std::vector<ValueFacts> Perform(const Node& call, ListOf<Term> inputs) override { return InferCall(call, inputs); }
  Term Hold(Tensor tensor) override { return Make(FreshName(), FactsOf(tensor)); }
};

Attribute ToAttribute(const Setting& setting) {
  switch (setting.type) {
    case AttributeType::kInt: return {setting.name, setting.number};
    case AttributeType::kFloat: return {setting.name, setting.real};
    case AttributeType::kInts: return {setting.name, *setting.numbers};
    case AttributeType::kStrings: return {setting.name, *setting.texts};
    default: return {setting.name, std::string(setting.text)};
  }
}

}  // namespace

std::vector<ValueFacts> InferCall(const Node& call, ListOf<Term> inputs) {
  std::vector<ValueFacts> facts = InferNode(call, [&](const std::string& name) -> const ValueFacts* {
    for (const Term& input : inputs)
      if (input && input.name() == name) return &input.facts();
    return nullptr;
  });
  facts.resize(call.outputs.size());
  return facts;
}

const std::string& Term::name() const {
  static const std::string kNone;
  return facts_ ? facts_->name : kNone;
}

const ValueFacts& Term::facts() const {
  if (!facts_) Fail(ErrorCode::kInvalidModel, "an input that is needed is left out");
  return facts_->facts;
}

DType Term::type() const {
  DType type = facts().type.dtype;
  if (type == DType::kUndefined) throw NotKnownYet();
  return type;
}

const SymbolicShape& Term::shape() const {
  if (!facts().type.shape) throw NotKnownYet();
  return *facts().type.shape;
}

size_t Term::rank() const { return shape().size(); }

int64_t Term::size(int64_t axis) const {
  const Dim& dim = shape()[NormalizeAxis(axis, rank())];
  if (!dim.known()) throw NotKnownYet();
  return *dim.value;
}

const Tensor& Term::value() const {
  if (!facts().constant) throw NotKnownYet();
  return *facts().constant;
}

Term Composer::Make(std::string name, ValueFacts facts) {
  held_.push_back({std::move(name), std::move(facts)});
  return Term(held_.back());
}

void Composer::AddInput(const std::string& name, ValueFacts facts) {
  inputs_.push_back(name.empty() ? Term() : Make(name, std::move(facts)));
}

void Composer::Out(size_t i, Term term) {
  if (Wants(i)) outputs_[i] = term;
}

Term Composer::Call(std::string_view op, ListOf<Term> inputs, ListOf<Setting> settings) {
  return CallMany(op, inputs, 1, settings)[0];
}

std::vector<Term> Composer::CallMany(std::string_view op, ListOf<Term> inputs, size_t outputs,
                                     ListOf<Setting> settings) {
  while (inputs.size > 0 && !inputs.data[inputs.size - 1]) --inputs.size;
  Node call;
  call.name = node_.name;
  call.op_type = op;
  for (const Setting& setting : settings) {
    const Attribute* own = setting.type == AttributeType::kUndefined ? node_.Find(setting.name) : nullptr;
    if (own)
      call.attributes.push_back(*own);
    else if (setting.type != AttributeType::kUndefined)
      call.attributes.push_back(ToAttribute(setting));
  }
  for (const Term& input : inputs) call.inputs.push_back(input.name());
  for (size_t i = 0; i < outputs; ++i) call.outputs.push_back(FreshName());
  std::vector<Term> results;
  for (ValueFacts& facts : Perform(call, inputs))
    results.push_back(Make(call.outputs[results.size()], std::move(facts)));
  return results;
}

Term Composer::Ints(const std::vector<int64_t>& values) { return Constant(Tensor::FromVector(values)); }

Term Composer::Int(int64_t value) { return Constant(Tensor::Scalar(value)); }

Term Composer::Number(double value, DType type) {
  Tensor tensor(type, {});
  StoreDoubles({&value, 1}, tensor);
  return Constant(std::move(tensor));
}

Term Composer::Cast(Term term, DType type) {
  if (term.type() == type) return term;
  return Call("Cast", {term}, {{"to", static_cast<int64_t>(type)}});
}

Term Composer::Reshape(Term term, const std::vector<int64_t>& shape) { return Call("Reshape", {term, Ints(shape)}); }

Term Composer::Transpose(Term term, const std::vector<int64_t>& order) {
  return Call("Transpose", {term}, {{"perm", order}});
}

Term Composer::ShapeOf(Term term, int64_t begin, int64_t end) {
  return Call("Shape", {term}, {{"start", begin}, {"end", end}});
}

Term Composer::Widen(Term term) {
  if (!term || (term.type() != DType::kFloat16 && term.type() != DType::kBFloat16)) return term;
  return Cast(term, DType::kFloat);
}

Term Composer::Slice(Term term, int64_t axis, int64_t begin, int64_t end) {
  return Call("Slice", {term, Ints({begin}), Ints({end}), Ints({axis})});
}

Settings Composer::Keep(std::initializer_list<const char*> names) {
  Settings kept;
  for (const char* name : names) kept.emplace_back(name);
  return kept;
}

void RunComposed(Compose compose, OpContext& context) {
  ComposedRun run(context);
  for (size_t i = 0; i < context.input_count(); ++i)
    if (context.Has(i))
      run.AddInput(Cat("input ", i), FactsOf(context.Input(i)));
    else
      run.AddInput("", {});
  try {
    compose(run);
  } catch (const NotKnownYet&) {
    Fail(ErrorCode::kInternal, "a value is missing");
  }
  for (size_t i = 0; i < run.outputs().size(); ++i)
    if (run.outputs()[i]) context.SetOutput(i, run.outputs()[i].value());
}

void InferComposed(Compose compose, InferContext& context) {
  ComposedInference inference(context.node());
  for (size_t i = 0; i < context.input_count(); ++i)
    if (context.Has(i))
      inference.AddInput(Cat("input ", i), context.InputFacts(i));
    else
      inference.AddInput("", {});
  try {
    compose(inference);
  } catch (const NotKnownYet&) {
    return;  // the run will tell
  }
  for (size_t i = 0; i < inference.outputs().size() && i < context.output_count(); ++i)
    if (inference.outputs()[i]) context.SetOutputFacts(i, inference.outputs()[i].facts());
}

Compose FindComposition(std::string_view domain, std::string_view name) {
  for (size_t i = 0; i < kCompositionTableSize; ++i)
    if (kCompositionTable[i]->name == name && kCompositionTable[i]->domain == CanonicalDomain(domain))
      return kCompositionTable[i]->compose;
  return nullptr;
}

}  // namespace ferry
