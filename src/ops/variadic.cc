// Operators that fold any number of broadcast inputs into one output.
#include <type_traits>

#include "ops/support/elementwise.h"

namespace ferry {
namespace {

constexpr auto kLarger = [](auto a, auto b) { return a != a || a > b ? a : b; };  // NaN wins, as in numpy
constexpr auto kSmaller = [](auto a, auto b) { return a != a || a < b ? a : b; };
constexpr auto kSum = [](auto a, auto b) { return a + b; };

Shape FoldedShape(const OpContext& context) {
  Require(context.input_count() > 0, "needs at least one input");
  const Tensor& first = context.Input(0);
  Shape shape = first.shape();
  for (size_t i = 1; i < context.input_count(); ++i) {
    const Tensor& other = context.Input(i);
    Require(other.dtype() == first.dtype(), "all inputs must have one element type, got ", first.dtype(), " and ",
            other.dtype());
    shape = BroadcastShapes(shape, other.shape());
  }
  return shape;
}

// Output 0 becomes f(…f(f(x0, x1), x2)…) and then what `finish` makes of it; small floats take all steps in float.
void Fold(const OpContext& context, Tensor& y, BinaryLoop f, FunctionRef<void(Tensor&)> finish) {
  DType type = y.dtype(), compute = ComputeType(type);
  auto widened = [&](size_t i) { return compute == type ? context.Input(i) : WidenToFloat(context.Input(i)); };
  if (context.input_count() == 1) return NarrowInto(context.Input(0), y);
  Tensor result = compute == type ? y : Tensor(compute, y.shape());
  RunBinary(context, widened(0), widened(1), result, f);
  for (size_t i = 2; i < context.input_count(); ++i) RunBinary(context, result, widened(i), result, f);
  finish(result);
  if (compute != type) NarrowInto(result, y);
}

template <class... Ts, class F, class Finish>
void ComputeFolded(OpContext& context, TypeList<Ts...> types, const F& f, const Finish& finish) {
  Tensor& y = context.Output(0, context.Input(0).dtype(), FoldedShape(context));
  Dispatch(types, ComputeType(y.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Fold(
        context, y, [&](const BinaryRun& run) { LoopOver<T>(run, f); }, [&](Tensor& result) { finish(result, tag); });
  });
}

template <class F>
void ComputeFold(OpContext& context) {
  ComputeFolded(context, NumberTypes{}, F{}, [](Tensor&, auto) {});
}

void ComputeMean(OpContext& context) {
  ComputeFolded(context, FloatTypes{}, kSum, [&](Tensor& sum, auto tag) {
    using T = typename decltype(tag)::type;
    auto count = static_cast<T>(context.input_count());
    RunMap(context, sum, sum, [&](const void* from, void* to, int64_t n) {
      for (int64_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = static_cast<const T*>(from)[i] / count;
    });
  });
}

void ComputeSum(OpContext& context) {
  ComputeFolded(context, FloatTypes{}, kSum, [](Tensor&, auto) {});
}

template <bool kTakesLarger>
void InferExtreme(InferContext& context) {
  InferElementwise(context);
  InferElements(context, 1, [](std::span<const Dim> x) {
    Dim extreme = x[0];
    for (const Dim& other : x.subspan(1)) {
      if (SameDim(extreme, other)) continue;
      if (!extreme.known() || !other.known()) {
        // A size that has a name is at least 0.
        const Dim& named = extreme.known() ? other : extreme;
        const Dim& number = extreme.known() ? extreme : other;
        bool below = number.known() && *number.value <= 0 && named.named();
        extreme = below ? (kTakesLarger ? named : number) : Dim();
      } else if ((*other.value > *extreme.value) == kTakesLarger) {
        extreme = other;
      }
    }
    return extreme;
  });
}

}  // namespace

// Only the first two inputs are read before the output is written.
FERRY_OPERATOR(Max, {.compute = ComputeFold<decltype(kLarger)>,
                     .infer = InferExtreme<true>,
                     .in_place = kInput0 | kInput1,
                     .elementwise = Elementwise::kOfSeveral});
FERRY_OPERATOR(Min, {.compute = ComputeFold<decltype(kSmaller)>,
                     .infer = InferExtreme<false>,
                     .in_place = kInput0 | kInput1,
                     .elementwise = Elementwise::kOfSeveral});
FERRY_OPERATOR(Sum, {.compute = ComputeSum,
                     .infer = InferElementwise,
                     .in_place = kInput0 | kInput1,
                     .elementwise = Elementwise::kOfSeveral});
FERRY_OPERATOR(Mean, {.compute = ComputeMean,
                      .infer = InferElementwise,
                      .in_place = kInput0 | kInput1,
                      .elementwise = Elementwise::kOfSeveral});

}  // namespace ferry
