#include "ops/infer_context.h"

#include "base/error.h"

namespace ferry {

InferContext::InferContext(const Node& node, std::span<const ValueFacts* const> inputs, size_t output_count,
                           SubgraphRule subgraph_rule)
    : node_(node), inputs_(inputs), outputs_(output_count), subgraph_rule_(std::move(subgraph_rule)) {}

InferContext::~InferContext() = default;

void InferContext::SetOutput(size_t i, DType dtype, SymbolicShape shape) {
  SetOutput(i, Type::Tensor(dtype, std::move(shape)));
}

void InferContext::SetOutput(size_t i, DType dtype) { SetOutput(i, Type::Tensor(dtype)); }

const ValueFacts& InferContext::InputFacts(size_t i) const {
  static const ValueFacts kNone;
  return Has(i) ? *inputs_[i] : kNone;
}

const Type& InferContext::InputType(size_t i) const { return InputFacts(i).type; }

const SymbolicShape* InferContext::InputShape(size_t i) const {
  const Type& type = InputType(i);
  return type.shape ? &*type.shape : nullptr;
}

const Tensor* InferContext::InputConstant(size_t i) const {
  const ValueFacts& facts = InputFacts(i);
  return facts.constant ? &*facts.constant : nullptr;
}

const SymbolicShape* InferContext::InputElements(size_t i) const {
  const ValueFacts& facts = InputFacts(i);
  return facts.elements ? &*facts.elements : nullptr;
}

std::optional<std::vector<int64_t>> InferContext::InputInts(size_t i) const {
  if (const SymbolicShape* elements = InputElements(i)) {
    std::vector<int64_t> ints;
    for (const Dim& dim : *elements) {
      if (!dim.known()) return std::nullopt;
      ints.push_back(*dim.value);
    }
    return ints;
  }
  if (const Tensor* constant = InputConstant(i);
      constant && IsInteger(constant->dtype()) && !IsPacked(constant->dtype()))
    return ToInt64Vector(*constant);
  return std::nullopt;
}

void InferContext::SetOutput(size_t i, Type type) {
  if (i < outputs_.size()) outputs_[i].type = std::move(type);
}
void InferContext::SetOutputElements(size_t i, SymbolicShape elements) {
  if (i < outputs_.size()) outputs_[i].elements = std::move(elements);
}
void InferContext::SetOutputFacts(size_t i, ValueFacts facts) {
  if (i < outputs_.size()) outputs_[i] = std::move(facts);
}

std::vector<ValueFacts> InferContext::InferSubgraph(std::string_view attribute,
                                                    std::span<const ValueFacts> inputs) const {
  if (!subgraph_rule_) Fail(ErrorCode::kInternal, "no rule for the body '", attribute, "'");
  return subgraph_rule_(*node_.Subgraph(attribute), inputs);
}

}  // namespace ferry
