// An experimental operator of the first opset that left the standard; models made by WinMLTools still begin with it,
// and other runtimes take them. y = scale · x + bias[channel].
#include "ops/support/elementwise.h"

namespace ferry {
namespace {

void ComputeImageScaler(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.rank() == 4, "the input must be images of shape [N, C, H, W], has shape ", x.shape());
  std::vector<float> bias = context.node().Floats("bias");
  const float scale = context.node().Float("scale", 1);
  const int64_t channels = x.dim(1), size = x.dim(2) * x.dim(3);
  Require(bias.empty() || static_cast<int64_t>(bias.size()) == channels, "attribute 'bias' has ", bias.size(),
          " values for ", channels, " channels");
  bias.resize(static_cast<size_t>(channels));
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Tensor wide_x = WidenToFloat(x), wide_y = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, x.shape()) : y;
  Dispatch(FloatTypes{}, wide_x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t row = 0; row < x.dim(0) * channels; ++row) {
      const T offset = bias[static_cast<size_t>(row % channels)];
      const T* from = wide_x.Data<T>() + row * size;
      T* to = wide_y.MutableData<T>() + row * size;
      for (int64_t i = 0; i < size; ++i) to[i] = from[i] * static_cast<T>(scale) + offset;
    }
  });
  NarrowInto(wide_y, y);
}

}  // namespace

FERRY_OPERATOR(ImageScaler, {.compute = ComputeImageScaler, .infer = InferSameAsInput});

}  // namespace ferry
