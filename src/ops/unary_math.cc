// Functions of one float from <cmath>, and the few that integers have too.
#include <cmath>
#include <type_traits>

#include "ops/support/elementwise.h"

namespace ferry {

FERRY_OPERATOR(Acos, (FloatMap([](auto x) { return std::acos(x); })));
FERRY_OPERATOR(Acosh, (FloatMap([](auto x) { return std::acosh(x); })));
FERRY_OPERATOR(Asin, (FloatMap([](auto x) { return std::asin(x); })));
FERRY_OPERATOR(Asinh, (FloatMap([](auto x) { return std::asinh(x); })));
FERRY_OPERATOR(Atan, (FloatMap([](auto x) { return std::atan(x); })));
FERRY_OPERATOR(Atanh, (FloatMap([](auto x) { return std::atanh(x); })));
FERRY_OPERATOR(Ceil, (FloatMap([](auto x) { return std::ceil(x); })));
FERRY_OPERATOR(Cos, (FloatMap([](auto x) { return std::cos(x); })));
FERRY_OPERATOR(Cosh, (FloatMap([](auto x) { return std::cosh(x); })));
FERRY_OPERATOR(Erf, (FloatMap([](auto x) { return std::erf(x); })));
FERRY_OPERATOR(Exp, (FloatMap([](auto x) { return std::exp(x); })));
FERRY_OPERATOR(Floor, (FloatMap([](auto x) { return std::floor(x); })));
FERRY_OPERATOR(Log, (FloatMap([](auto x) { return std::log(x); })));
FERRY_OPERATOR(Reciprocal, (FloatMap([](auto x) { return 1 / x; })));
// Halves go to the even neighbour: the rounding mode nobody changes.
FERRY_OPERATOR(Round, (FloatMap([](auto x) { return std::nearbyint(x); })));
FERRY_OPERATOR(Sin, (FloatMap([](auto x) { return std::sin(x); })));
FERRY_OPERATOR(Sinh, (FloatMap([](auto x) { return std::sinh(x); })));
FERRY_OPERATOR(Sqrt, (FloatMap([](auto x) { return std::sqrt(x); })));
FERRY_OPERATOR(Tan, (FloatMap([](auto x) { return std::tan(x); })));
FERRY_OPERATOR(Tanh, (FloatMap([](auto x) { return std::tanh(x); })));

// The most negative integer has no positive of its own and stays what it is, as in numpy.
template <class T>
static T Negated(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return -x;
  else
    return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
}

static void ComputeAbs(OpContext& context) {
  MapElements(context, NumberTypes{}, [](auto x) {
    using T = decltype(x);
    if constexpr (std::is_floating_point_v<T>)
      return std::abs(x);
    else
      return x < T{0} ? Negated(x) : x;
  });
}

static void InferAbs(InferContext& context) {
  InferSameAsInput(context);
  InferElements(context, 1, [](std::span<const Dim> x) {
    if (!x[0].known()) return x[0].named() ? x[0] : Dim();  // sizes have a name, and are not negative
    return *x[0].value < 0 ? Dim(0) - x[0] : x[0];
  });
}

static void ComputeNeg(OpContext& context) {
  MapElements(context, TypeList<float, double, int8_t, int16_t, int32_t, int64_t>{}, [](auto x) { return Negated(x); });
}

static void InferNeg(InferContext& context) {
  InferSameAsInput(context);
  InferElements(context, 1, [](std::span<const Dim> x) { return Dim(0) - x[0]; });
}

static void ComputeSign(OpContext& context) {
  MapElements(context, NumberTypes{}, [](auto x) {
    using T = decltype(x);
    if constexpr (std::is_floating_point_v<T>) {
      if (x != x) return x;
    }
    return static_cast<T>((x > T{0}) - (x < T{0}));
  });
}

FERRY_OPERATOR(Abs, (ElementMap(ComputeAbs, InferAbs)));
FERRY_OPERATOR(Neg, (ElementMap(ComputeNeg, InferNeg)));
FERRY_OPERATOR(Sign, (ElementMap(ComputeSign)));

}  // namespace ferry
