// ImageShuffle: the channels of a channels-last image seen as [groups, C / groups] and transposed, as ShuffleNet mixes
// its halves. Made by passes/channels_last.
#include "kernels/image.h"
#include "ops/operator.h"
#include "ops/support/elementwise.h"
#include "ops/support/fused.h"

namespace ferry {
namespace {

void ComputeImageShuffle(OpContext& context) {
  const Tensor& x = context.Input(0);
  int64_t groups = context.node().Int("groups", 1), channels = x.shape().empty() ? 0 : x.shape().back();
  Require(groups >= 1 && channels % groups == 0, channels, " channels cannot be shuffled in ", groups, " groups");
  int64_t each = channels / groups, pixels = channels == 0 ? 0 : x.size() / channels;
  const float* from = x.Data<float>();
  float* to = context.Output(0, DType::kFloat, x.shape()).MutableData<float>();
  int64_t grain = 1 + kElementGrain / std::max<int64_t>(1, channels);
  context.ParallelFor(pixels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t pixel = begin; pixel < end; ++pixel) {
      const float* a = from + pixel * channels;
      float* b = to + pixel * channels;
      if (groups == 2) {
        BestImageKernels().interleave(a, a + each, each, b);
        continue;
      }
      for (int64_t g = 0; g < groups; ++g)
        for (int64_t i = 0; i < each; ++i) b[i * groups + g] = a[g * each + i];
    }
  });
}

}  // namespace

FERRY_OPERATOR(ImageShuffle, {.domain = kInternalDomain, .compute = ComputeImageShuffle, .infer = InferSameAsInput});

}  // namespace ferry
