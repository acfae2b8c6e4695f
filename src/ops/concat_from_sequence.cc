#include "ops/operator.h"
#include "ops/support/concat.h"

namespace ferry {
namespace {

int64_t RequiredAxis(const Node& node) {
  if (!node.Has("axis")) Fail(ErrorCode::kInvalidModel, "attribute 'axis' is missing");
  return node.Int("axis", 0);
}

void ComputeConcatFromSequence(OpContext& context) {
  int64_t axis = RequiredAxis(context.node());
  std::vector<const Tensor*> parts;
  for (const Value& value : context.InputValue(0).sequence().elements) parts.push_back(&value.tensor());
  if (context.node().Int("new_axis", 0) != 0)
    WriteStacked(context, 0, parts, axis);
  else
    WriteConcatenated(context, 0, parts, axis);
}

void InferConcatFromSequence(InferContext& context) {
  const Type& sequence = context.InputType(0);
  if (!sequence.element) return;
  const Type& element = *sequence.element;
  if (!element.shape) return context.SetOutput(0, element.dtype);
  SymbolicShape shape = *element.shape;
  int64_t axis = RequiredAxis(context.node());
  if (context.node().Int("new_axis", 0) != 0)
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(NormalizeAxis(axis, shape.size() + 1)), Dim());
  else
    shape[NormalizeAxis(axis, shape.size())] = Dim();
  context.SetOutput(0, element.dtype, std::move(shape));
}

}  // namespace

FERRY_OPERATOR(ConcatFromSequence, {.compute = ComputeConcatFromSequence, .infer = InferConcatFromSequence});

}  // namespace ferry
