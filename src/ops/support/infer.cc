#include "ops/support/infer.h"

#include "base/error.h"

namespace ferry {

SymbolicShape BroadcastSymbolic(const SymbolicShape& a, const SymbolicShape& b) {
  const SymbolicShape& longer = a.size() >= b.size() ? a : b;
  const SymbolicShape& shorter = a.size() >= b.size() ? b : a;
  SymbolicShape out = longer;
  size_t offset = longer.size() - shorter.size();
  for (size_t axis = 0; axis < shorter.size(); ++axis) {
    Dim& dim = out[axis + offset];
    const Dim& other = shorter[axis];
    bool dim_is_one = dim.known() && *dim.value == 1, other_is_one = other.known() && *other.value == 1;
    if (other_is_one || SameDim(dim, other)) continue;
    if (dim_is_one) {
      dim = other;
    } else if (dim.known() && other.known()) {
      Fail(ErrorCode::kInvalidModel, "shapes ", a, " and ", b, " cannot be broadcast together");
    } else if (other.known()) {
      dim = other;  // the side that is not known must be 1 or the same
    } else if (!dim.known()) {
      dim = Dim();
    }
  }
  return out;
}

void InferBroadcast(InferContext& context, DType dtype, size_t first, size_t last) {
  SymbolicShape shape;
  for (size_t i = first; i < last && i < context.input_count(); ++i) {
    if (!context.Has(i)) continue;
    const SymbolicShape* input = context.InputShape(i);
    if (!input) return context.SetOutput(0, dtype);
    shape = BroadcastSymbolic(shape, *input);
  }
  context.SetOutput(0, dtype, std::move(shape));
}

void InferSameAsInput(InferContext& context) { context.SetOutput(0, context.InputType(0)); }
void InferElementwise(InferContext& context) { InferBroadcast(context, context.InputDType(0), 0, context.input_count()); }
void InferComparison(InferContext& context) { InferBroadcast(context, DType::kBool, 0, context.input_count()); }

}  // namespace ferry
