// NhwcShuffle: the channels of a channels-last image seen as [groups, C / groups] and transposed, as ShuffleNet mixes
// its halves. A second input is the second half of two groups, a second output that of the result. Made by
// passes/channels_last and passes/fuse_shuffle.
#include <cstring>

#include "kernels/nhwc.h"
#include "ops/operator.h"
#include "ops/support/elementwise.h"
#include "ops/support/fused.h"

namespace ferry {
namespace {

int64_t ChannelsOf(const Tensor& image) { return image.shape().empty() ? 0 : image.shape().back(); }

// Channels of any width: only floats have a kernel of their own.
struct Channels {
  DType type;
  size_t width;

  explicit Channels(const Tensor& image) : type(image.dtype()), width(static_cast<size_t>(BitWidth(type)) / 8) {
    Require(width > 0 && !IsPacked(type), "channels of ", Name(type), " cannot be shuffled");
  }
  void Interleave(const std::byte* a, const std::byte* b, int64_t count, std::byte* to) const {
    if (type == DType::kFloat) {
      BestNhwcKernels().interleave(reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b), count,
                                   reinterpret_cast<float*>(to));
      return;
    }
    Spread(a, count, 2, to);
    Spread(b, count, 2, to + width);
  }
  // One after another, to every `groups`-th place.
  void Spread(const std::byte* from, int64_t count, int64_t groups, std::byte* to) const {
    const size_t step = static_cast<size_t>(groups) * width;
    for (int64_t i = 0; i < count; ++i, from += width, to += step) {
      if (width == 1)
        *to = *from;
      else
        std::memcpy(to, from, width);
    }
  }
};

void ShuffleWhole(OpContext& context, int64_t groups) {
  const Tensor& x = context.Input(0);
  const Channels kind(x);
  const int64_t channels = ChannelsOf(x), each = channels / groups, pixels = channels == 0 ? 0 : x.size() / channels;
  const size_t pixel_bytes = static_cast<size_t>(channels) * kind.width,
               group_bytes = static_cast<size_t>(each) * kind.width;
  const std::byte* from = x.raw();
  std::byte* to = context.Output(0, x.dtype(), x.shape()).mutable_raw();
  context.ParallelFor(pixels, 1 + kElementGrain / std::max<int64_t>(1, channels), [&](int64_t begin, int64_t end) {
    for (int64_t pixel = begin; pixel < end; ++pixel) {
      const std::byte* a = from + static_cast<size_t>(pixel) * pixel_bytes;
      std::byte* b = to + static_cast<size_t>(pixel) * pixel_bytes;
      if (groups == 2) {
        kind.Interleave(a, a + group_bytes, each, b);
        continue;
      }
      for (int64_t g = 0; g < groups; ++g, a += group_bytes, b += kind.width) kind.Spread(a, each, groups, b);
    }
  });
}

// Two images of `each` channels become one, or its two halves.
void ShufflePair(OpContext& context) {
  const Tensor &x = context.Input(0), &second = context.Input(1);
  const Channels kind(x);
  const int64_t each = ChannelsOf(x), pixels = each == 0 ? 0 : x.size() / each;
  const bool halves = context.node().outputs.size() == 2;
  Require(x.shape() == second.shape() && x.dtype() == second.dtype(), "images of ", x.shape(), " and ", second.shape(),
          " cannot be mixed");
  Require(!halves || each % 2 == 0, each, " channels cannot be halved");
  Shape shape = x.shape();
  if (!halves && !shape.empty()) shape.back() = 2 * each;
  const std::byte *a = x.raw(), *b = second.raw();
  std::byte* to = context.Output(0, x.dtype(), shape).mutable_raw();
  std::byte* rest = halves ? context.Output(1, x.dtype(), shape).mutable_raw() : nullptr;
  context.ParallelFor(pixels, 1 + kElementGrain / std::max<int64_t>(1, 2 * each), [&](int64_t begin, int64_t end) {
    for (int64_t pixel = begin; pixel < end; ++pixel) {
      const size_t at = static_cast<size_t>(pixel * each) * kind.width;
      if (!halves) {
        kind.Interleave(a + at, b + at, each, to + 2 * at);
        continue;
      }
      const size_t half = at + static_cast<size_t>(each / 2) * kind.width;
      kind.Interleave(a + at, b + at, each / 2, to + at);
      kind.Interleave(a + half, b + half, each / 2, rest + at);
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
      context.SetOutput(i, context.InputDType(0));
      continue;
    }
    SymbolicShape shape = *x;
    if (!halves) shape.back() = shape.back() * Dim(2);
    context.SetOutput(i, context.InputDType(0), std::move(shape));
  }
}

}  // namespace

FERRY_OPERATOR_IN(internal, NhwcShuffle, {.compute = ComputeNhwcShuffle, .infer = InferNhwcShuffle, .per_image = true});

}  // namespace ferry
