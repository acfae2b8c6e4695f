// NhwcAffine: activation(x · factor + offset) with a factor for every channel, the same for all images ([C]) or one
// for each ([N, 1…, C]): batch normalisation, and the gates of squeeze-and-excitation. Made by passes/channels_last.
#include "kernels/nhwc.h"
#include "ops/operator.h"
#include "ops/support/elementwise.h"
#include "ops/support/fused.h"
#include "ops/support/nhwc.h"

namespace ferry {

void ComputeNhwcAffine(OpContext& context, const RowLayout& rows) {
  const Tensor& x = context.Input(0);
  const Tensor& factor = context.Input(1);
  const Tensor* offset = context.OptionalInput(2);
  Require(x.rank() >= 2, "the input needs a batch and channels, its shape is ", x.shape());
  int64_t batch = x.dim(0), channels = x.shape().back(), pixels = x.shape().CountBetween(1, x.rank() - 1);
  bool per_image = factor.rank() > 1 && factor.dim(0) == batch;
  Require(factor.size() == (per_image ? batch : 1) * channels, "factors of shape ", factor.shape(), " do not fit ",
          x.shape());
  Require(!offset || offset->size() == channels, "offsets must be ", channels, " values");
  Activation activation = ActivationOf(context.node());
  float* y = context.Output(0, DType::kFloat, x.shape()).MutableData<float>();
  int64_t stride = rows.InputStride(0, x), grain = 1 + kElementGrain / std::max<int64_t>(1, channels);
  context.ParallelFor(batch * pixels, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t image = begin / pixels, count = std::min(end, (image + 1) * pixels) - begin;
      BestNhwcKernels().affine(x.Data<float>() + begin * stride, stride, count, channels,
                               factor.Data<float>() + (per_image ? image * channels : 0),
                               offset ? offset->Data<float>() : nullptr, activation, y + begin * channels);
      begin += count;
    }
  });
}

static void Affine(OpContext& context) { ComputeNhwcAffine(context, {}); }

FERRY_OPERATOR_IN(internal, NhwcAffine,
                  {.compute = Affine, .infer = InferSameAsInput, .in_place = kInput0, .per_image = true});

}  // namespace ferry
