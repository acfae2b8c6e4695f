// NhwcShuffle: the channels of a channels-last image seen as [groups, C / groups] and transposed, as ShuffleNet mixes
// its halves. A second input is the second half of two groups, a second output that of the result. Made by
// passes/channels_last and passes/fuse_shuffle.
#include "kernels/nhwc.h"
#include "ops/operator.h"
#include "ops/support/elementwise.h"
#include "ops/support/fused.h"

namespace ferry {
namespace {

int64_t ChannelsOf(const Tensor& image) { return image.shape().empty() ? 0 : image.shape().back(); }

void ShuffleWhole(OpContext& context, int64_t groups) {
  const Tensor& x = context.Input(0);
  const int64_t channels = ChannelsOf(x), each = channels / groups, pixels = channels == 0 ? 0 : x.size() / channels;
  const float* from = x.Data<float>();
  float* to = context.Output(0, DType::kFloat, x.shape()).MutableData<float>();
  context.ParallelFor(pixels, 1 + kElementGrain / std::max<int64_t>(1, channels), [&](int64_t begin, int64_t end) {
    for (int64_t pixel = begin; pixel < end; ++pixel) {
      const float* a = from + pixel * channels;
      float* b = to + pixel * channels;
      if (groups == 2) {
        BestNhwcKernels().interleave(a, a + each, each, b);
        continue;
      }
      for (int64_t g = 0; g < groups; ++g)
        for (int64_t i = 0; i < each; ++i) b[i * groups + g] = a[g * each + i];
    }
  });
}

// Two images of `each` channels become one, or its two halves.
void ShufflePair(OpContext& context) {
  const Tensor &x = context.Input(0), &second = context.Input(1);
  const int64_t each = ChannelsOf(x), pixels = each == 0 ? 0 : x.size() / each;
  const bool halves = context.node().outputs.size() == 2;
  Require(x.shape() == second.shape(), "images of ", x.shape(), " and ", second.shape(), " cannot be mixed");
  Require(!halves || each % 2 == 0, each, " channels cannot be halved");
  Shape shape = x.shape();
  if (!halves && !shape.empty()) shape.back() = 2 * each;
  const float *a = x.Data<float>(), *b = second.Data<float>();
  float* to = context.Output(0, DType::kFloat, shape).MutableData<float>();
  float* rest = halves ? context.Output(1, DType::kFloat, shape).MutableData<float>() : nullptr;
  const auto interleave = BestNhwcKernels().interleave;
  context.ParallelFor(pixels, 1 + kElementGrain / std::max<int64_t>(1, 2 * each), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * each; at < end * each; at += each) {
      if (!halves) {
        interleave(a + at, b + at, each, to + 2 * at);
        continue;
      }
      interleave(a + at, b + at, each / 2, to + at);
      interleave(a + at + each / 2, b + at + each / 2, each / 2, rest + at);
    }
  });
}

void ComputeNhwcShuffle(OpContext& context) {
  const int64_t groups = context.node().Int("groups", 1), pair = context.OptionalInput(1) ? 2 : 1;
  const int64_t channels = pair * ChannelsOf(context.Input(0));
  Require(groups >= 1 && channels % groups == 0, channels, " channels cannot be shuffled in ", groups, " groups");
  if (pair == 1) return ShuffleWhole(context, groups);
  Require(groups == 2, "two images are two groups, not ", groups);
  ShufflePair(context);
}

void InferNhwcShuffle(InferContext& context) {
  if (!context.Has(1)) return InferSameAsInput(context);
  const SymbolicShape* x = context.InputShape(0);
  const bool halves = context.node().outputs.size() == 2;
  for (size_t i = 0; i < context.node().outputs.size(); ++i) {
    if (!x || x->empty()) {
      context.SetOutput(i, DType::kFloat);
      continue;
    }
    SymbolicShape shape = *x;
    if (!halves) shape.back() = shape.back() * Dim(2);
    context.SetOutput(i, DType::kFloat, std::move(shape));
  }
}

}  // namespace

FERRY_OPERATOR_IN(internal, NhwcShuffle, {.compute = ComputeNhwcShuffle, .infer = InferNhwcShuffle, .per_image = true});

}  // namespace ferry
