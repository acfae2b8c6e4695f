#include "ops/operator.h"
#include "ops/support/infer.h"
#include "ops/support/scalar.h"

namespace ferry {
namespace {

DType SequenceType(const Node& node) { return TypeAttribute(node, "dtype", DType::kFloat); }

// A position in [-count, count + extra) counted from the front.
size_t CheckedPosition(const Tensor& tensor, size_t count, int64_t extra) {
  int64_t position = ScalarInt(tensor, "position"), size = static_cast<int64_t>(count);
  Require(position >= -size && position < size + extra, "position ", position, " is out of range for a sequence of ",
          size);
  return static_cast<size_t>(position < 0 ? position + size : position);
}

void ComputeSequenceAt(OpContext& context) {
  const Sequence& sequence = context.InputValue(0).sequence();
  context.SetOutput(0, sequence.elements[CheckedPosition(context.Input(1), sequence.elements.size(), 0)]);
}

void ComputeSequenceConstruct(OpContext& context) {
  Sequence sequence;
  for (size_t i = 0; i < context.input_count(); ++i) {
    const Tensor& tensor = context.Input(i);
    Require(tensor.dtype() == context.Input(0).dtype(), "input 0 is ", context.Input(0).dtype(), ", input ", i, " is ",
            tensor.dtype());
    sequence.elements.push_back(tensor.Persistent());
  }
  context.SetOutput(0, std::move(sequence));
}

void ComputeSequenceEmpty(OpContext& context) {
  SequenceType(context.node());
  context.SetOutput(0, Sequence{});
}

void ComputeSequenceErase(OpContext& context) {
  Sequence sequence = context.InputValue(0).sequence();
  Require(!sequence.elements.empty(), "there is nothing to erase from an empty sequence");
  size_t count = sequence.elements.size();
  size_t position = context.Has(1) ? CheckedPosition(context.Input(1), count, 0) : count - 1;
  sequence.elements.erase(sequence.elements.begin() + static_cast<ptrdiff_t>(position));
  context.SetOutput(0, std::move(sequence));
}

void ComputeSequenceInsert(OpContext& context) {
  Sequence sequence = context.InputValue(0).sequence();
  const Tensor& tensor = context.Input(1);
  size_t count = sequence.elements.size();
  if (count > 0 && sequence.elements[0].is_tensor())
    Require(sequence.elements[0].tensor().dtype() == tensor.dtype(), "the sequence holds ",
            sequence.elements[0].tensor().dtype(), ", the new tensor is ", tensor.dtype());
  size_t position = context.Has(2) ? CheckedPosition(context.Input(2), count, 1) : count;
  sequence.elements.insert(sequence.elements.begin() + static_cast<ptrdiff_t>(position), tensor.Persistent());
  context.SetOutput(0, std::move(sequence));
}

void ComputeSequenceLength(OpContext& context) {
  auto count = static_cast<int64_t>(context.InputValue(0).sequence().elements.size());
  *context.Output(0, DType::kInt64, {}).MutableData<int64_t>() = count;
}

Type ElementType(const Type& sequence) { return sequence.element ? *sequence.element : Type{}; }

void InferSequenceAt(InferContext& context) { context.SetOutput(0, ElementType(context.InputType(0))); }

void InferSequenceConstruct(InferContext& context) {
  Type element = context.InputType(0);
  for (size_t i = 1; i < context.input_count(); ++i) element = Union(element, context.InputType(i));
  context.SetOutput(0, Type::SequenceOf(std::move(element)));
}

void InferSequenceEmpty(InferContext& context) {
  context.SetOutput(0, Type::SequenceOf(Type::Tensor(SequenceType(context.node()))));
}

void InferSequenceInsert(InferContext& context) {
  Type held = ElementType(context.InputType(0));
  context.SetOutput(0, Type::SequenceOf(held.known() ? Union(held, context.InputType(1)) : context.InputType(1)));
}

void InferSequenceLength(InferContext& context) { context.SetOutput(0, DType::kInt64, SymbolicShape{}); }

}  // namespace

FERRY_OPERATOR(SequenceAt, {.compute = ComputeSequenceAt, .infer = InferSequenceAt});
FERRY_OPERATOR(SequenceConstruct, {.compute = ComputeSequenceConstruct, .infer = InferSequenceConstruct});
FERRY_OPERATOR(SequenceEmpty, {.compute = ComputeSequenceEmpty, .infer = InferSequenceEmpty});
FERRY_OPERATOR(SequenceErase, {.compute = ComputeSequenceErase, .infer = InferSameAsInput});
FERRY_OPERATOR(SequenceInsert, {.compute = ComputeSequenceInsert, .infer = InferSequenceInsert});
FERRY_OPERATOR(SequenceLength, {.compute = ComputeSequenceLength, .infer = InferSequenceLength});

}  // namespace ferry
