#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/support/elementwise.h"

namespace ferry {
namespace {

// Integers wrap: one unsigned loop per width serves both signs, in a width that C++ does not promote to signed int.
using WrappingTypes = TypeList<float, double, uint8_t, uint16_t, uint32_t, uint64_t>;
template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, T, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;

constexpr auto kAdd = [](auto a, auto b) { return static_cast<decltype(a)>(Wide<decltype(a)>{a} + b); };
constexpr auto kSubtract = [](auto a, auto b) { return static_cast<decltype(a)>(Wide<decltype(a)>{a} - b); };
constexpr auto kMultiply = [](auto a, auto b) { return static_cast<decltype(a)>(Wide<decltype(a)>{a} * b); };

void RefuseZero(bool is_zero) {
  if (is_zero) [[unlikely]]
    Fail(ErrorCode::kInvalidArgument, "an integer is divided by zero: the second input holds a 0");
}

// Toward zero. The smallest integer divided by −1 wraps to itself.
template <class T>
T Divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) RefuseZero(b == 0);
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(Wide<T>{0} - static_cast<Wide<T>>(a));
  }
  return a / b;
}

constexpr auto kDivide = [](auto a, auto b) { return Divide<decltype(a)>(a, b); };

// As Python's %: the result has the sign of the divisor.
template <class T>
T FloorModulo(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    T rest = std::fmod(a, b);
    if (rest != 0) return (rest < 0) != (b < 0) ? rest + b : rest;
    return std::copysign(rest, b);
  } else {
    RefuseZero(b == 0);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    T rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
}

// As C's fmod and %: the result has the sign of the dividend.
template <class T>
T TruncatedModulo(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    RefuseZero(b == 0);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return a % b;
  }
}

void ComputeMod(OpContext& context) {
  int64_t fmod = context.node().Int("fmod", 0);
  Require(fmod == 0 || fmod == 1, "attribute 'fmod' must be 0 or 1, is ", fmod);
  if (fmod == 0)
    ComputeBinary(context, NumberTypes{}, [](auto a, auto b) { return FloorModulo<decltype(a)>(a, b); });
  else
    ComputeBinary(context, NumberTypes{}, [](auto a, auto b) { return TruncatedModulo<decltype(a)>(a, b); });
}

template <class Rule>
void InferArithmetic(InferContext& context) {
  InferElementwise(context);
  InferElements(context, 2, [](std::span<const Dim> x) { return Rule{}(x[0], x[1]); });
}

template <class Rule>
constexpr Operator Arithmetic(void (*compute)(OpContext&), Rule) {
  return {.compute = compute,
          .infer = InferArithmetic<Rule>,
          .in_place = kInput0 | kInput1,
          .elementwise = Elementwise::kOfSeveral};
}

// Division and remainder of numbers that are known, where they are defined and do not wrap.
bool Divides(const Dim& a, const Dim& b) {
  return a.known() && b.known() && *b.value != 0 &&
         !(*b.value == -1 && *a.value == std::numeric_limits<int64_t>::min());
}

void InferMod(InferContext& context) {
  InferElementwise(context);
  bool truncates = context.node().Int("fmod", 0) == 1;
  InferElements(context, 2, [&](std::span<const Dim> x) {
    if (Divides(x[0], x[1]))
      return Dim(truncates ? TruncatedModulo(*x[0].value, *x[1].value) : FloorModulo(*x[0].value, *x[1].value));
    return x[1].known() && *x[1].value == 1 ? Dim(0) : Dim();
  });
}

}  // namespace

FERRY_OPERATOR(Add, (Arithmetic([](OpContext& c) { ComputeBinary(c, WrappingTypes{}, kAdd, AsUnsigned); },
                                [](const Dim& a, const Dim& b) { return a + b; })));
FERRY_OPERATOR(Sub, (Arithmetic([](OpContext& c) { ComputeBinary(c, WrappingTypes{}, kSubtract, AsUnsigned); },
                                [](const Dim& a, const Dim& b) { return a - b; })));
FERRY_OPERATOR(Mul, (Arithmetic([](OpContext& c) { ComputeBinary(c, WrappingTypes{}, kMultiply, AsUnsigned); },
                                [](const Dim& a, const Dim& b) { return a * b; })));
FERRY_OPERATOR(Div, (Arithmetic([](OpContext& c) { ComputeBinary(c, NumberTypes{}, kDivide); },
                                [](const Dim& a, const Dim& b) {
                                  if (Divides(a, b)) return Dim(*a.value / *b.value);
                                  return b.known() && *b.value == 1 ? a : Dim();
                                })));
FERRY_OPERATOR(Mod, {.compute = ComputeMod,
                     .infer = InferMod,
                     .in_place = kInput0 | kInput1,
                     .elementwise = Elementwise::kOfSeveral});

}  // namespace ferry
