#include <cmath>
#include <type_traits>

#include "ops/support/cast_tensor.h"
#include "ops/support/elementwise.h"
#include "ops/support/numeric_cast.h"

namespace ferry {
namespace {

// Wraps, as multiplication does. A negative power of anything but ±1 is a fraction and is cut to 0.
template <class T, class Exponent>
T IntegerPower(T base, Exponent exponent) {
  if (exponent < Exponent{0}) {
    Require(base != 0, "0 to a negative power (", exponent, ") is not an integer");
    if (base != 1 && base != T(-1)) return 0;
    return exponent % 2 == 0 ? T{1} : base;
  }
  auto square = static_cast<uint64_t>(base);
  uint64_t product = 1;
  for (auto bits = static_cast<uint64_t>(exponent); bits != 0; bits >>= 1, square *= square)
    if (bits & 1) product *= square;
  return static_cast<T>(product);
}

template <class T>
void FloatPowerRun(const BinaryRun& run) {
  if (!run.b_advances && run.a_advances) {
    // The powers that networks are made of cost a multiplication, not a logarithm.
    const T exponent = *static_cast<const T*>(run.b);
    if (exponent == 2) return LoopOver<T>(run, [](T x, T) { return x * x; });
    if (exponent == 3) return LoopOver<T>(run, [](T x, T) { return x * x * x; });
    if (exponent == 1) return LoopOver<T>(run, [](T x, T) { return x; });
    if (exponent == -1) return LoopOver<T>(run, [](T x, T) { return 1 / x; });
  }
  LoopOver<T>(run, [](T x, T y) { return std::pow(x, y); });
}

// Bases and exponents of one type already, small floats too.
void FloatPower(const OpContext& context, const Tensor& base, const Tensor& exponent, Tensor& out) {
  Dispatch(FloatTypes{}, ComputeType(base.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    RunBinary(context, base, exponent, out, [](const BinaryRun& run) { FloatPowerRun<T>(run); });
  });
}

void IntegerPowers(const OpContext& context, const Tensor& base, const Tensor& exponent, Tensor& out) {
  bool is_unsigned = exponent.dtype() == DType::kUInt64;
  Tensor powers = CastTensor(exponent, DType::kInt64), bases = CastTensor(base, DType::kInt64);
  Tensor results = base.dtype() == DType::kInt64 ? out : Tensor(DType::kInt64, out.shape());
  RunBinary(context, bases, powers, results, [&](const BinaryRun& run) {
    if (is_unsigned)
      LoopOver<int64_t>(run, [](int64_t x, int64_t y) { return IntegerPower(x, static_cast<uint64_t>(y)); });
    else
      LoopOver<int64_t>(run, [](int64_t x, int64_t y) { return IntegerPower(x, y); });
  });
  CastInto(results, out);
}

void ComputePow(OpContext& context) {
  const Tensor& base = context.Input(0);
  const Tensor& exponent = context.Input(1);
  DType type = base.dtype();
  Require(IsFloating(type) || type == DType::kInt32 || type == DType::kInt64, "the base cannot be ", type);
  Require(IsFloating(exponent.dtype()) || IsInteger(exponent.dtype()), "the exponent cannot be ", exponent.dtype());
  Tensor& out = context.Output(0, type, BroadcastShapes(base.shape(), exponent.shape()));
  if (exponent.dtype() == type && IsFloating(type)) return FloatPower(context, base, exponent, out);
  if (IsInteger(type) && IsInteger(exponent.dtype())) return IntegerPowers(context, base, exponent, out);
  // Types that differ meet in a float type that holds both, as in numpy, and the result is cut back to the base's.
  bool fits_float = IsFloating(type) && type != DType::kDouble && BitWidth(exponent.dtype()) < 32;
  DType common =
      fits_float || (IsSmallFloat(type) && exponent.dtype() == DType::kFloat) ? DType::kFloat : DType::kDouble;
  Tensor results = type == common ? out : Tensor(common, out.shape());
  FloatPower(context, CastTensor(base, common), CastTensor(exponent, common), results);
  CastInto(results, out);
}

void InferPow(InferContext& context) {
  InferBroadcast(context, context.InputDType(0), 0, 2);
  InferElements(context, 2, [](std::span<const Dim> x) {
    if (!x[1].known() || *x[1].value < 0 || *x[1].value > 64) return Dim();
    Dim power(1);
    for (int64_t i = 0; i < *x[1].value; ++i) power = power * x[0];
    return power;
  });
}

}  // namespace

FERRY_OPERATOR(Pow,
               {.compute = ComputePow, .infer = InferPow, .in_place = kInput0, .elementwise = Elementwise::kOfSeveral});

}  // namespace ferry
