#include <algorithm>

#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"

namespace ferry {
namespace {

// The shape that the request asks for, -1 still in place; `cancelled` gets the axes whose empty dimension is copied
// from the data: they stand on both sides and leave the -1 determined.
Shape CopyZeros(Shape shape, const Shape& data, bool allow_zero, std::vector<bool>& cancelled) {
  std::optional<size_t> open;
  bool has_zero = false;
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    int64_t& dim = shape[axis];
    Require(dim >= -1, "the new shape ", shape, " has a dimension below -1");
    if (dim == -1) {
      Require(!open, "the new shape ", shape, " has more than one -1");
      open = axis;
    } else if (dim == 0 && !allow_zero) {
      Require(axis < data.rank(), "dimension ", axis, " of the new shape ", shape, " is to be copied from shape ", data,
              ", which has no such axis");
      dim = data[axis];
      cancelled[axis] = dim == 0;
    } else {
      has_zero = has_zero || dim == 0;
    }
  }
  Require(!open || !has_zero, "with allowzero the new shape ", shape, " cannot have both 0 and -1");
  return shape;
}

void ComputeReshape(OpContext& context) {
  const Tensor& data = context.Input(0);
  Shape wanted(IntegerList(context.Input(1), "the new shape"));
  std::vector<bool> cancelled(std::max(wanted.rank(), data.rank()));
  Shape shape = CopyZeros(wanted, data.shape(), context.node().Int("allowzero", 0) != 0, cancelled);
  int64_t whole = 1, rest = 1;
  for (size_t axis = 0; axis < data.rank(); ++axis)
    if (!cancelled[axis]) whole = CheckedProduct(whole, data.dim(axis));
  for (size_t axis = 0; axis < shape.rank(); ++axis)
    if (!cancelled[axis] && shape[axis] != -1) rest = CheckedProduct(rest, shape[axis]);
  for (int64_t& dim : shape) {
    if (dim != -1) continue;
    Require(rest > 0 && whole % rest == 0, "shape ", data.shape(), " cannot be reshaped to ", wanted);
    dim = whole / rest;
  }
  context.SetOutput(0, data.Reshaped(shape));
}

// Takes a name that is in both lists out of both: it stands for the same factor above and below.
void CancelNames(SymbolicShape& above, SymbolicShape& below) {
  for (auto it = below.begin(); it != below.end();) {
    auto same = it->named()
                    ? std::find_if(above.begin(), above.end(), [&](const Dim& dim) { return SameDim(dim, *it); })
                    : above.end();
    if (same == above.end()) {
      ++it;
    } else {
      above.erase(same);
      it = below.erase(it);
    }
  }
}

// Takes the numbers out and gives their product; a size that is neither number nor name stays.
Dim TakeNumbers(SymbolicShape& shape) {
  Dim product(1);
  auto end = std::remove_if(shape.begin(), shape.end(), [&](const Dim& dim) {
    if (dim.known()) product = product * dim;
    return dim.known();
  });
  shape.erase(end, shape.end());
  return product;
}

// The one dimension that makes the counts equal, when the rest determines it.
Dim RemainingDim(SymbolicShape whole, SymbolicShape rest) {
  CancelNames(whole, rest);
  Dim above = TakeNumbers(whole), below = TakeNumbers(rest);
  if (!rest.empty() || !above.known() || !below.known() || *below.value == 0) return {};
  if (*above.value % *below.value == 0) return CountElements(whole) * Dim(*above.value / *below.value);
  if (!whole.empty()) return {};
  Fail(ErrorCode::kInvalidModel, *above.value, " elements cannot be split into parts of ", *below.value);
}

void InferReshape(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  std::optional<SymbolicShape> wanted = ElementsOf(context, 1);
  if (!wanted) {
    std::optional<size_t> rank = ListLength(context, 1);
    return InferView(context, rank ? std::optional(UnknownShape(*rank)) : std::nullopt);
  }
  bool allow_zero = context.node().Int("allowzero", 0) != 0;
  SymbolicShape out, rest;
  std::optional<size_t> open;
  size_t unknown_count = 0;
  for (size_t axis = 0; axis < wanted->size(); ++axis) {
    Dim dim = (*wanted)[axis];
    if (dim.known() && *dim.value < -1)
      Fail(ErrorCode::kInvalidModel, "the new shape ", *wanted, " has a dimension below -1");
    if (dim.known() && *dim.value == 0 && !allow_zero) {
      if (data && axis >= data->size())
        Fail(ErrorCode::kInvalidModel, "dimension ", axis, " of the new shape ", *wanted,
             " is to be copied from shape ", *data, ", which has no such axis");
      dim = data ? (*data)[axis] : Dim();
      unknown_count += !data;
    } else if (dim.unknown() || (dim.known() && *dim.value == -1)) {
      open = axis;
      ++unknown_count;
      dim = Dim();
    }
    out.push_back(dim);
  }
  if (unknown_count == 1 && open && data) {
    for (size_t axis = 0; axis < out.size(); ++axis)
      if (axis != *open) rest.push_back(out[axis]);
    out[*open] = RemainingDim(*data, std::move(rest));
  }
  Dim before = data ? CountElements(*data) : Dim(), after = CountElements(out);
  if (before.known() && after.known() && *before.value != *after.value)
    Fail(ErrorCode::kInvalidModel, "shape ", *data, " has ", *before.value, " elements, the new shape ", out, " has ",
         *after.value);
  InferView(context, std::move(out));
}

}  // namespace

FERRY_OPERATOR(Reshape, {.compute = ComputeReshape, .infer = InferReshape, .is_view = true, .moves_elements = true});

}  // namespace ferry
