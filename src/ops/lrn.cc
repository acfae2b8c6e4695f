#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/support/elementwise.h"

namespace ferry {
namespace {

struct Window {
  int64_t below, above;  // channels on either side
  double alpha_over_size, beta, bias;
};

template <class T>
void NormalizeChannel(const T* image, int64_t channel, int64_t channels, int64_t size, const Window& window, T* y) {
  std::vector<double> squares(static_cast<size_t>(size));
  int64_t first = std::max<int64_t>(0, channel - window.below), last = std::min(channels - 1, channel + window.above);
  for (int64_t c = first; c <= last; ++c)
    for (int64_t i = 0; i < size; ++i) {
      double value = image[c * size + i];
      squares[static_cast<size_t>(i)] += value * value;
    }
  const T* x = image + channel * size;
  for (int64_t i = 0; i < size; ++i)
    y[i] = static_cast<T>(
        x[i] / std::pow(window.bias + window.alpha_over_size * squares[static_cast<size_t>(i)], window.beta));
}

void ComputeLRN(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Node& node = context.node();
  Require(x.rank() >= 2, "the input must have a batch and a channel axis, has shape ", x.shape());
  int64_t width = node.Int("size", 0);
  Require(width > 0, "attribute 'size' must be a positive number of channels, is ", width);
  int64_t channels = x.dim(1), size = x.shape().CountBetween(2, x.rank());
  // No window reaches further than there are channels.
  Window window{std::min((width - 1) / 2, channels), std::min(width / 2, channels),
                node.Float("alpha", 1e-4f) / static_cast<double>(width), node.Float("beta", 0.75f),
                node.Float("bias", 1)};
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Tensor wide_x = WidenToFloat(x), wide_y = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, x.shape()) : y;
  Dispatch(FloatTypes{}, wide_x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    int64_t grain = std::max<int64_t>(1, 1024 / std::max<int64_t>(1, size));
    context.ParallelFor(x.dim(0) * channels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t channel = row % channels;
        NormalizeChannel(wide_x.Data<T>() + (row - channel) * size, channel, channels, size, window,
                         wide_y.MutableData<T>() + row * size);
      }
    });
  });
  NarrowInto(wide_y, y);
}

}  // namespace

FERRY_OPERATOR(LRN, {.compute = ComputeLRN, .infer = InferSameAsInput});

}  // namespace ferry
