#include "ops/support/reduce_into.h"

#include <complex>

#include "base/poll.h"
#include "ops/support/dispatch.h"
#include "ops/support/elements.h"
#include "ops/support/movement.h"
#include "ops/support/widen.h"
#include "ops/support/wrapping.h"

namespace ferry {
namespace {

template <class T>
T Minimum(const T& a, const T& b) {
  return b < a || b != b ? b : a;
}
template <class T>
T Maximum(const T& a, const T& b) {
  return a < b || b != b ? b : a;
}

template <class T>
using Combine = T (*)(const T&, const T&);

template <class T>
Combine<T> CombinerOf(ScatterReduction reduction) {
  constexpr bool kIsText = std::is_same_v<T, std::string>;
  constexpr bool kHasOrder = !std::is_same_v<T, std::complex<float>> && !std::is_same_v<T, std::complex<double>>;
  if (reduction == ScatterReduction::kAdd) return WrappingAdd<T>;
  if constexpr (!kIsText) {
    if (reduction == ScatterReduction::kMul) return WrappingMultiply<T>;
  }
  if constexpr (kHasOrder) {
    if (reduction == ScatterReduction::kMin) return Minimum<T>;
    if (reduction == ScatterReduction::kMax) return Maximum<T>;
  }
  Fail(ErrorCode::kUnsupported, "this reduction is not defined for elements of ", kDTypeOf<T>);
}

using ReducibleTypes = TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                                bool, std::string, std::complex<float>, std::complex<double>>;

}  // namespace

ScatterReduction ReadScatterReduction(const Node& node) {
  std::string name = node.String("reduction", "none");
  if (name == "none") return ScatterReduction::kNone;
  if (name == "add") return ScatterReduction::kAdd;
  if (name == "mul") return ScatterReduction::kMul;
  if (name == "min") return ScatterReduction::kMin;
  if (name == "max") return ScatterReduction::kMax;
  Fail(ErrorCode::kInvalidModel, "reduction '", Printable(name), "' is not one of none, add, mul, min, max");
}

void ScatterRuns(ScatterReduction reduction, const Tensor& updates, std::span<const int64_t> places, int64_t run,
                 Tensor& out) {
  Poll poll;
  if (reduction == ScatterReduction::kNone) {
    if (run > 1) {
      for (size_t k = 0; k < places.size(); ++k, poll())
        CopyRun(updates, static_cast<int64_t>(k) * run, out, places[k], run);
      return;
    }
    if (run == 0) return;
    ForEachWidth(out.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* from = RawData<T>(updates);
      T* to = MutableRawData<T>(out);
      for (size_t k = 0; k < places.size(); ++k, poll()) to[places[k]] = from[k];
    });
    return;
  }
  if (IsSmallFloat(out.dtype())) {
    Tensor wide = WidenToFloat(out);
    ScatterRuns(reduction, WidenToFloat(updates), places, run, wide);
    return NarrowInto(wide, out);
  }
  Dispatch(ReducibleTypes{}, out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Combine<T> combine = CombinerOf<T>(reduction);
    const T* from = updates.Data<T>();
    T* to = out.MutableData<T>();
    for (size_t k = 0; k < places.size(); ++k, poll())
      for (int64_t i = 0; i < run; ++i, ++from) to[places[k] + i] = combine(to[places[k] + i], *from);
  });
}

}  // namespace ferry
