#include <cmath>
#include <limits>

#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// A coordinate from a file as a whole number that later sums cannot overflow.
template <class T>
int64_t WholeCoordinate(T value) {
  constexpr T kFar = T{1 << 24};
  if (!(value > -kFar)) return -(int64_t{1} << 24);
  return value < kFar ? static_cast<int64_t>(std::round(value)) : int64_t{1} << 24;
}

// The rows or columns [begin, end) of one bin, clipped to the image.
template <class T>
std::pair<int64_t, int64_t> BinRange(int64_t start, int64_t length, int64_t bin, int64_t bins, int64_t size) {
  T step = static_cast<T>(length) / static_cast<T>(bins);
  auto begin = start + static_cast<int64_t>(std::floor(static_cast<T>(bin) * step));
  auto end = start + static_cast<int64_t>(std::ceil(static_cast<T>(bin + 1) * step));
  return {std::clamp<int64_t>(begin, 0, size), std::clamp<int64_t>(end, 0, size)};
}

template <class T>
void PoolRegion(const T* roi, T scale, const T* image, const Shape& x, const Shape& pooled, T* out) {
  int64_t left = WholeCoordinate(roi[1] * scale), top = WholeCoordinate(roi[2] * scale);
  int64_t width = std::max<int64_t>(WholeCoordinate(roi[3] * scale) - left + 1, 1);
  int64_t height = std::max<int64_t>(WholeCoordinate(roi[4] * scale) - top + 1, 1);
  for (int64_t channel = 0; channel < x[1]; ++channel, image += x[2] * x[3])
    for (int64_t i = 0; i < pooled[2]; ++i) {
      auto [row_begin, row_end] = BinRange<T>(top, height, i, pooled[2], x[2]);
      for (int64_t j = 0; j < pooled[3]; ++j, ++out) {
        auto [column_begin, column_end] = BinRange<T>(left, width, j, pooled[3], x[3]);
        bool is_empty = row_begin >= row_end || column_begin >= column_end;
        T best = is_empty ? T{0} : -std::numeric_limits<T>::infinity();
        for (int64_t row = row_begin; row < row_end; ++row)
          for (int64_t column = column_begin; column < column_end; ++column) {
            T value = image[row * x[3] + column];
            if (value > best || std::isnan(value)) best = value;
          }
        *out = best;
      }
    }
}

void ComputeMaxRoiPool(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& rois = context.Input(1);
  Require(x.rank() == 4, "the input must have shape [N, C, H, W], has ", x.shape());
  Require(rois.rank() == 2 && rois.dim(1) == 5, "rois must have shape [count, 5], have ", rois.shape());
  std::vector<int64_t> bins = context.node().Ints("pooled_shape");
  Require(bins.size() == 2 && bins[0] >= 1 && bins[1] >= 1, "pooled_shape must be two positive numbers");
  Shape shape{rois.dim(0), x.dim(1), bins[0], bins[1]};
  Tensor& y = context.Output(0, x.dtype(), shape);
  Tensor wide_x = WidenToFloat(x), wide_rois = WidenToFloat(rois);
  Tensor result = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, shape) : y;
  Dispatch(FloatTypes{}, wide_x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = wide_x.Data<T>();
    const T* regions = wide_rois.Data<T>();
    T* to = result.MutableData<T>();
    T scale = static_cast<T>(context.node().Float("spatial_scale", 1.0f));
    int64_t image_size = x.shape().CountBetween(1, 4), out_size = shape.CountBetween(1, 4);
    context.ParallelFor(rois.dim(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T image = regions[i * 5];
        Require(image >= 0 && image < static_cast<T>(x.dim(0)), "region ", i, " is of image ", double{image},
                ", there are ", x.dim(0));
        PoolRegion<T>(regions + i * 5, scale, from + static_cast<int64_t>(image) * image_size, x.shape(), shape,
                      to + i * out_size);
      }
    });
  });
  NarrowInto(result, y);
}

void InferMaxRoiPool(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* rois = context.InputShape(1);
  std::vector<int64_t> bins = context.node().Ints("pooled_shape");
  Require(bins.size() == 2 && bins[0] >= 1 && bins[1] >= 1, "pooled_shape must be two positive numbers");
  if (x) Require(x->size() == 4, "the input must have shape [N, C, H, W], has ", *x);
  if (rois) Require(rois->size() == 2, "rois must have shape [count, 5], have ", *rois);
  context.SetOutput(0, context.InputDType(0), {rois ? (*rois)[0] : Dim(), x ? (*x)[1] : Dim(), bins[0], bins[1]});
}

}  // namespace

FERRY_OPERATOR(MaxRoiPool, {.compute = ComputeMaxRoiPool, .infer = InferMaxRoiPool});

}  // namespace ferry
