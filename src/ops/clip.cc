#include "ops/support/elementwise.h"

namespace ferry {
namespace {

Tensor Limit(const OpContext& context, size_t input, const char* name, DType type) {
  const Tensor& limit = context.Input(input);
  Require(limit.size() == 1, "'", name, "' must be a scalar, has shape ", limit.shape());
  Require(limit.dtype() == type, "'", name, "' must be ", type, " as the input is, got ", limit.dtype());
  return IsSmallFloat(type) ? WidenToFloat(limit) : limit;
}

void ComputeClip(OpContext& context) {
  const Tensor& x = context.Input(0);
  bool has_low = context.Has(1), has_high = context.Has(2);
  Tensor low = has_low ? Limit(context, 1, "min", x.dtype()) : Tensor();
  Tensor high = has_high ? Limit(context, 2, "max", x.dtype()) : Tensor();
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Dispatch(NumberTypes{}, ComputeType(x.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    // A limit that is not given must not touch infinities: the comparison is left out rather than made with the
    // largest.
    T least = has_low ? *low.Data<T>() : T{}, most = has_high ? *high.Data<T>() : T{};
    RunMap(context, x, y, [&](const void* from, void* to, int64_t count) {
      auto* in = static_cast<const T*>(from);
      auto* out = static_cast<T*>(to);
      // Max first, then min: with min above max everything becomes max. NaN passes through.
      if (has_low && has_high) {
        for (int64_t i = 0; i < count; ++i) {
          T raised = in[i] < least ? least : in[i];
          out[i] = raised > most ? most : raised;
        }
      } else if (has_low) {
        for (int64_t i = 0; i < count; ++i) out[i] = in[i] < least ? least : in[i];
      } else if (has_high) {
        for (int64_t i = 0; i < count; ++i) out[i] = in[i] > most ? most : in[i];
      } else if (in != out) {
        std::copy_n(in, count, out);
      }
    });
  });
}

}  // namespace

FERRY_OPERATOR(Clip, (ElementMap(ComputeClip)));

}  // namespace ferry
