// NhwcMaxPool (of floats or bytes), NhwcAveragePool and NhwcMean (of floats) over channels-last images; made by
// passes/channels_last.
#include <algorithm>
#include <vector>

#include "base/scratch.h"
#include "kernels/int8_nhwc.h"
#include "kernels/nhwc.h"
#include "ops/operator.h"
#include "ops/support/fused.h"
#include "ops/support/nhwc.h"
#include "ops/support/quantized_step.h"

namespace ferry {
namespace {

enum class PoolScratch { kSumsOfParts, kCount };

constexpr int64_t kPieceWork = 1 << 15;

// finish(pixels, count, out) makes one output pixel of the taps that lie on the image.
template <class T, class Finish>
void ComputeWindows(OpContext& context, const RowLayout& rows, const Finish& finish) {
  const Tensor& x = context.Input(0);
  Require(x.rank() >= 3, "the input needs a batch, spatial axes and channels, its shape is ", x.shape());
  PoolPlan plan(context.node(), ToChannelsFirst(x.shape()));
  std::array<WindowAxis, 3> axes = ThreeAxes(plan.axes);
  int64_t channels = x.shape().back(), batch = x.dim(0);
  Tensor& out = context.Output(0, x.dtype(), ToChannelsLast(plan.output));
  T* y = reinterpret_cast<T*>(out.mutable_raw());
  const int64_t x_stride = rows.InputStride(0, x), y_stride = rows.output.StrideOf(out);
  int64_t grain = 1 + kPieceWork / std::max<int64_t>(1, plan.counts.taps * channels);
  context.ParallelFor(batch * plan.counts.output, grain, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> taps;
    std::vector<const T*> pixels(static_cast<size_t>(plan.counts.taps));
    while (begin < end) {
      int64_t image = begin / plan.counts.output, first = begin % plan.counts.output;
      int64_t last = std::min(plan.counts.output, first + end - begin);
      const T* from = reinterpret_cast<const T*>(x.raw()) + image * plan.counts.input * x_stride;
      T* to = y + image * plan.counts.output * y_stride;
      ForEachWindow(axes, first, last, taps, [&](int64_t row, const int64_t* offsets, int64_t count) {
        for (int64_t i = 0; i < count; ++i) pixels[static_cast<size_t>(i)] = from + offsets[i] * x_stride;
        finish(pixels.data(), count, to + row * y_stride);
      });
      begin += last - first;
    }
  });
}

}  // namespace

void ComputeNhwcMaxPool(OpContext& context, const RowLayout& rows) {
  const Tensor& x = context.Input(0);
  int64_t channels = x.rank() == 0 ? 0 : x.shape().back();
  if (IsByte(x.dtype())) {
    uint8_t flip = FlipOf(x.dtype());
    return ComputeWindows<uint8_t>(context, rows, [&](const uint8_t* const* pixels, int64_t count, uint8_t* to) {
      BestInt8NhwcKernels().largest(pixels, count, channels, flip, to);
    });
  }
  Require(x.dtype() == DType::kFloat, "images are of float or of bytes, not of ", x.dtype());
  ComputeWindows<float>(context, rows, [&](const float* const* pixels, int64_t count, float* to) {
    BestNhwcKernels().largest(pixels, count, channels, to);
  });
}

void ComputeNhwcAveragePool(OpContext& context, const RowLayout& rows) {
  int64_t channels = context.Input(0).shape().back(), all = 1;
  for (int64_t size : context.node().Ints("kernel_shape")) all *= size;
  bool include_padding = context.node().Int("count_include_pad", 0) != 0;
  ComputeWindows<float>(context, rows, [&](const float* const* pixels, int64_t count, float* to) {
    float scale = 1.0f / static_cast<float>(include_padding ? all : count);
    BestNhwcKernels().scaled_sum(pixels, count, channels, scale, to);
  });
}

namespace {

void MaxPool(OpContext& context) { ComputeNhwcMaxPool(context, {}); }
void AveragePool(OpContext& context) { ComputeNhwcAveragePool(context, {}); }

void InferNhwcPool(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  DType type = context.InputDType(0);
  if (!x || x->size() < 3) return context.SetOutput(0, type);
  context.SetOutput(0, type, ToChannelsLast(InferPooled(context, ToChannelsFirst(*x))));
}

// The mean over all spatial axes.
void ComputeNhwcMean(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.rank() >= 3, "the input needs a batch, spatial axes and channels, its shape is ", x.shape());
  int64_t batch = x.dim(0), channels = x.shape().back(), pixels = x.shape().CountBetween(1, x.rank() - 1);
  Shape shape = {batch};
  if (context.node().Int("keepdims", 1))
    for (size_t axis = 1; axis + 1 < x.rank(); ++axis) shape.push_back(1);
  shape.push_back(channels);
  float* y = context.Output(0, DType::kFloat, shape).MutableData<float>();
  // Parts of an image are added up by the threads that wrote them. Their number decides the rounding and must not
  // depend on how many threads there are.
  constexpr int64_t kMostParts = 16;
  int64_t parts = std::clamp<int64_t>(pixels * channels / kPieceWork, 1, kMostParts);
  const float* from = x.Data<float>();
  auto add = [&](const float* rows, int64_t count, float scale, float* to) {
    BestNhwcKernels().scaled_row_sum(rows, count, channels, channels, scale, to);
  };
  float scale = 1.0f / static_cast<float>(pixels);
  // The caller's, for all threads.
  float* sums = parts > 1 ? ThreadScratch<float>(PoolScratch::kSumsOfParts, batch * parts * channels) : nullptr;
  int64_t grain = 1 + kPieceWork / std::max<int64_t>(1, pixels * channels / parts) / 2;
  context.ParallelFor(batch * parts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      int64_t first = pixels * (item % parts) / parts, last = pixels * (item % parts + 1) / parts;
      const float* rows = from + (item / parts * pixels + first) * channels;
      if (parts == 1)
        add(rows, last - first, scale, y + item * channels);
      else
        add(rows, last - first, 1.0f, sums + item * channels);
    }
  });
  for (int64_t image = 0; parts > 1 && image < batch; ++image)
    add(sums + image * parts * channels, parts, scale, y + image * channels);
}

void InferNhwcMean(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x || x->size() < 3) return context.SetOutput(0, DType::kFloat);
  SymbolicShape shape = {x->front()};
  if (context.node().Int("keepdims", 1)) shape.resize(x->size() - 1, Dim(1));
  shape.push_back(x->back());
  context.SetOutput(0, DType::kFloat, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(internal, NhwcMaxPool, {.compute = MaxPool, .infer = InferNhwcPool, .per_image = true});
FERRY_OPERATOR_IN(internal, NhwcAveragePool, {.compute = AveragePool, .infer = InferNhwcPool, .per_image = true});
FERRY_OPERATOR_IN(internal, NhwcMean, {.compute = ComputeNhwcMean, .infer = InferNhwcMean, .per_image = true});

}  // namespace ferry
