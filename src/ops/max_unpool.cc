#include <cstring>

#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/window.h"

namespace ferry {
namespace {

// The size that pooling with these attributes came from, along each spatial axis.
std::vector<int64_t> UnpooledSizes(const WindowAttributes& window, std::span<const int64_t> pooled) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < pooled.size(); ++i) {
    Require(pooled[i] >= 0 && pooled[i] <= (int64_t{1} << 31), "spatial size ", pooled[i], " is out of range");
    int64_t size = (pooled[i] - 1) * window.strides[i] - window.pads_begin[i] - window.pads_end[i] + window.kernel[i];
    Require(size >= 0, "padding ", window.pads_begin[i], " + ", window.pads_end[i], " is more than the whole output");
    sizes.push_back(size);
  }
  return sizes;
}

// Copies the rows of a smaller array into the corner of a larger one, whose other elements are there already.
void CopyIntoCorner(const std::byte* from, const Shape& small, std::byte* to, const Shape& large, size_t element) {
  size_t row = static_cast<size_t>(small.back()) * element;
  int64_t rows = small.CountBetween(0, small.rank() - 1);
  std::vector<int64_t> strides = large.Strides(), index(small.rank() - 1);
  for (int64_t i = 0; i < rows && row > 0; ++i, from += row) {
    int64_t offset = 0;
    for (size_t a = 0; a < index.size(); ++a) offset += index[a] * strides[a];
    std::memcpy(to + static_cast<size_t>(offset) * element, from, row);
    for (size_t a = index.size(); a-- > 0 && ++index[a] == small[a];) index[a] = 0;
  }
}

void FillWithZeros(Tensor& tensor) {
  ForLookedParts(static_cast<int64_t>(tensor.bytes()), 1, [&](int64_t begin, int64_t end) {
    std::memset(tensor.mutable_raw() + begin, 0, static_cast<size_t>(end - begin));
  });
}

void ComputeMaxUnpool(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& indices = context.Input(1);
  Require(x.rank() >= 3, "the input needs a batch, channels and at least one spatial axis, its shape is ", x.shape());
  Require(indices.shape() == x.shape(), "indices ", indices.shape(), " and values ", x.shape(), " must match");
  WindowAttributes window = WindowAttributes::Read(context.node(), x.rank() - 2, {});
  Shape inferred{x.dim(0), x.dim(1)};
  for (int64_t size : UnpooledSizes(window, x.shape().dims().subspan(2))) inferred.push_back(size);
  Shape shape = inferred;
  if (const Tensor* wanted = context.OptionalInput(2)) {
    std::vector<int64_t> sizes = ToInt64Vector(*wanted);
    Require(sizes.size() == x.rank(), "output_shape has ", sizes.size(), " values for rank ", x.rank());
    shape = Shape(sizes);
    for (size_t axis = 0; axis < x.rank(); ++axis)
      Require(shape[axis] >= inferred[axis], "output_shape ", shape, " is smaller than ", inferred,
              ", which unpooling gives");
  }

  // The indices count elements of the inferred shape, also where a larger output is asked for.
  Tensor& y = context.Output(0, x.dtype(), shape);
  bool is_larger = !(shape == inferred);
  Tensor unpooled = is_larger ? Tensor(x.dtype(), inferred) : y;
  FillWithZeros(unpooled);
  size_t element = static_cast<size_t>(BitWidth(x.dtype())) / 8;
  const int64_t* places = indices.Data<int64_t>();
  WorkPoll poll;
  for (int64_t i = 0; i < x.size(); ++i) {
    poll(8);
    Require(places[i] >= 0 && places[i] < unpooled.size(), "index ", places[i], " is outside the output ", inferred);
    std::memcpy(unpooled.mutable_raw() + static_cast<size_t>(places[i]) * element,
                x.raw() + static_cast<size_t>(i) * element, element);
  }
  if (!is_larger || y.bytes() == 0) return;
  FillWithZeros(y);
  CopyIntoCorner(unpooled.raw(), inferred, y.mutable_raw(), shape, element);
}

void InferMaxUnpool(InferContext& context) {
  DType type = context.InputDType(0);
  const SymbolicShape* x = context.InputShape(0);
  if (context.Has(2)) {
    if (const SymbolicShape* wanted = context.InputElements(2)) return context.SetOutput(0, type, *wanted);
    if (auto sizes = context.InputInts(2)) return context.SetOutput(0, type, ToSymbolic(Shape(*sizes)));
    if (!x) return context.SetOutput(0, type);
    return context.SetOutput(0, type, SymbolicShape(x->size()));
  }
  if (!x) return context.SetOutput(0, type);
  Require(x->size() >= 3, "the input needs a batch, channels and at least one spatial axis, its shape is ", *x);
  WindowAttributes window = WindowAttributes::Read(context.node(), x->size() - 2, {});
  SymbolicShape out = {(*x)[0], (*x)[1]};
  for (size_t i = 0; i + 2 < x->size(); ++i) {
    const Dim& dim = (*x)[i + 2];
    int64_t growth = window.kernel[i] - window.strides[i] - window.pads_begin[i] - window.pads_end[i];
    out.push_back(dim * Dim(window.strides[i]) + Dim(growth));
  }
  context.SetOutput(0, type, std::move(out));
}

}  // namespace

FERRY_OPERATOR(MaxUnpool, {.compute = ComputeMaxUnpool, .infer = InferMaxUnpool});

}  // namespace ferry
