#include "ops/support/concat.h"

#include "ops/support/movement.h"

namespace ferry {
namespace {

void CheckAgrees(const Tensor& first, const Tensor& part, size_t index, size_t free_axis) {
  Require(part.dtype() == first.dtype(), "part 0 is ", first.dtype(), ", part ", index, " is ", part.dtype());
  bool agrees = part.rank() == first.rank();
  for (size_t axis = 0; agrees && axis < part.rank(); ++axis)
    agrees = axis == free_axis || part.dim(axis) == first.dim(axis);
  Require(agrees, "shape ", part.shape(), " of part ", index, " does not go beside ", first.shape());
}

// The parts seen as [outer, own width], the result as [outer, sum of widths].
void WriteSideBySide(OpContext& context, size_t i, std::span<const Tensor* const> parts, const Shape& shape,
                     int64_t outer) {
  int64_t row = outer > 0 ? shape.ElementCount() / outer : 0;
  WriteMoved(context, i, parts[0]->dtype(), shape, [&](Tensor& out) {
    int64_t place = 0;
    for (const Tensor* part : parts) {
      if (part->size() == 0) continue;
      int64_t width = part->size() / outer;
      // A first part may lie in the result's memory.
      const bool is_there = outer == 1 && place == 0 && part->dtype() != DType::kString && part->raw() == out.raw();
      if (!is_there) CopyStrided(context, Movable(*part), 0, out, place, {{outer, width, row}, {width, 1, 1}});
      place += width;
    }
  });
}

}  // namespace

void WriteConcatenated(OpContext& context, size_t i, std::span<const Tensor* const> parts, int64_t axis) {
  Require(!parts.empty(), "there is nothing to concatenate");
  const Tensor& first = *parts[0];
  Require(first.rank() > 0, "scalars cannot be concatenated");
  size_t along = NormalizeAxis(axis, first.rank());
  Shape shape = first.shape();
  shape[along] = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    CheckAgrees(first, *parts[p], p, along);
    bool overflows = __builtin_add_overflow(shape[along], parts[p]->dim(along), &shape[along]);
    Require(!overflows, "the parts together are too long for axis ", along);
  }
  WriteSideBySide(context, i, parts, shape, shape.CountBetween(0, along));
}

void WriteStacked(OpContext& context, size_t i, std::span<const Tensor* const> parts, int64_t axis) {
  Require(!parts.empty(), "there is nothing to stack");
  const Tensor& first = *parts[0];
  size_t along = NormalizeAxis(axis, first.rank() + 1);
  for (size_t p = 0; p < parts.size(); ++p) CheckAgrees(first, *parts[p], p, first.rank());
  Shape shape = first.shape();
  shape.insert(along, static_cast<int64_t>(parts.size()));
  WriteSideBySide(context, i, parts, shape, shape.CountBetween(0, along));
}

SymbolicShape ConcatenatedShape(std::span<const SymbolicShape* const> parts, int64_t axis) {
  SymbolicShape shape = *parts[0];
  size_t along = NormalizeAxis(axis, shape.size());
  shape[along] = Dim(0);
  for (const SymbolicShape* part : parts) {
    if (part->size() != shape.size())
      Fail(ErrorCode::kInvalidModel, "shapes ", *parts[0], " and ", *part, " cannot be concatenated");
    for (size_t a = 0; a < shape.size(); ++a) {
      const Dim& dim = (*part)[a];
      if (a == along) {
        shape[a] = shape[a] + dim;
      } else if (shape[a].known() && dim.known() && *shape[a].value != *dim.value) {
        Fail(ErrorCode::kInvalidModel, "shapes ", *parts[0], " and ", *part, " cannot be concatenated");
      } else if (dim.known() || shape[a].unknown()) {
        shape[a] = dim;  // all are the same size: keep the one that says most
      }
    }
  }
  return shape;
}

}  // namespace ferry
