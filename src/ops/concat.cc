#include "ops/support/concat.h"

#include "ops/operator.h"
#include "ops/support/infer.h"

namespace ferry {
namespace {

int64_t ConcatAxis(const Node& node) {
  if (!node.Has("axis")) Fail(ErrorCode::kInvalidModel, "attribute 'axis' is missing");
  return node.Int("axis", 0);
}

void ComputeConcat(OpContext& context) {
  std::vector<const Tensor*> parts;
  for (size_t i = 0; i < context.input_count(); ++i) parts.push_back(&context.Input(i));
  WriteConcatenated(context, 0, parts, ConcatAxis(context.node()));
}

void InferConcat(InferContext& context) {
  std::vector<const SymbolicShape*> shapes;
  SymbolicShape elements;
  bool elements_known = true;
  for (size_t i = 0; i < context.input_count(); ++i) {
    if (const SymbolicShape* shape = context.InputShape(i)) shapes.push_back(shape);
    std::optional<SymbolicShape> part = elements_known ? ElementsOf(context, i) : std::nullopt;
    elements_known = part && elements.size() + part->size() <= kMostKnownElements;
    if (elements_known) elements.insert(elements.end(), part->begin(), part->end());
  }
  DType dtype = context.InputDType(0);
  if (shapes.empty()) return context.SetOutput(0, dtype);
  SymbolicShape shape = ConcatenatedShape(shapes, ConcatAxis(context.node()));
  // A part of unknown shape still has the others' rank and their other dimensions.
  if (shapes.size() < context.input_count()) shape[NormalizeAxis(ConcatAxis(context.node()), shape.size())] = Dim();
  bool is_list = shape.size() == 1;
  context.SetOutput(0, dtype, std::move(shape));
  if (is_list && elements_known) context.SetOutputElements(0, std::move(elements));
}

}  // namespace

FERRY_OPERATOR(Concat, {.compute = ComputeConcat, .infer = InferConcat});

}  // namespace ferry
