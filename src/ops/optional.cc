#include "ops/operator.h"

namespace ferry {
namespace {

// An optional that holds something is that something: see tensor/value.h.
void ComputeOptional(OpContext& context) {
  context.SetOutput(0, context.Has(0) ? context.InputValue(0) : Value(Nothing{}));
}

void InferOptional(InferContext& context) {
  if (context.Has(0)) {
    if (context.InputType(0).known()) context.SetOutput(0, Type::OptionalOf(context.InputType(0)));
    return;
  }
  const Attribute* attribute = context.node().Find("type");
  const Type* type = attribute ? std::get_if<Type>(&attribute->held) : nullptr;
  if (!type) Fail(ErrorCode::kInvalidModel, "without an input the attribute 'type' is needed");
  context.SetOutput(0, Type::OptionalOf(*type));
}

void ComputeOptionalGetElement(OpContext& context) {
  const Value& value = context.InputValue(0);
  Require(!value.is_nothing(), "the optional holds nothing; guard it with OptionalHasElement");
  context.SetOutput(0, value);
}

void InferOptionalGetElement(InferContext& context) {
  const Type& type = context.InputType(0);
  if (type.kind != Type::Kind::kOptional)
    context.SetOutput(0, type);
  else if (type.element)
    context.SetOutput(0, *type.element);
}

void ComputeOptionalHasElement(OpContext& context) {
  *context.Output(0, DType::kBool, {}).MutableData<bool>() = context.Has(0) && !context.InputValue(0).is_nothing();
}

void InferOptionalHasElement(InferContext& context) { context.SetOutput(0, DType::kBool, SymbolicShape{}); }

}  // namespace

FERRY_OPERATOR(Optional, {.compute = ComputeOptional, .infer = InferOptional, .is_view = true});
FERRY_OPERATOR(OptionalGetElement,
               {.compute = ComputeOptionalGetElement, .infer = InferOptionalGetElement, .is_view = true});
FERRY_OPERATOR(OptionalHasElement, {.compute = ComputeOptionalHasElement, .infer = InferOptionalHasElement});

}  // namespace ferry
