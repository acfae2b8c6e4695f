// Activation functions of one float. Comparisons are written so that NaN stays NaN.
#include <cmath>
#include <string>

#include "ops/support/elementwise.h"

namespace ferry {
namespace {

// exp never overflows in either branch, and small results keep their digits.
template <class T>
T Sigmoid(T x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  T e = std::exp(x);
  return e / (1 + e);
}

template <class T>
T Softplus(T x) {
  return (x > 0 ? x : T{0}) + std::log1p(std::exp(-std::abs(x)));
}

template <class T>
T Clamp(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}

// alpha·(exp(x) − 1) without the cancellation near zero.
template <class T>
T ExpLinear(T x, T alpha) {
  return x < 0 ? alpha * std::expm1(x) : x;
}

// 1 + erf(z) is erfc(−z), which keeps its digits where the sum cancels.
template <class T>
T GeluExact(T x) {
  constexpr T kRootHalf = static_cast<T>(0.70710678118654752440);
  return x / 2 * std::erfc(-x * kRootHalf);
}

template <class T>
T GeluTanh(T x) {
  constexpr T kRootTwoOverPi = static_cast<T>(0.79788456080286535588);
  constexpr T kCubic = static_cast<T>(0.044715);
  return x / 2 * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x)));
}

}  // namespace

FERRY_OPERATOR(Sigmoid, (FloatMap([](auto x) { return Sigmoid(x); })));
FERRY_OPERATOR(Softplus, (FloatMap([](auto x) { return Softplus(x); })));
FERRY_OPERATOR(Softsign, (FloatMap([](auto x) { return x / (1 + std::abs(x)); })));
FERRY_OPERATOR(Mish, (FloatMap([](auto x) { return x * std::tanh(Softplus(x)); })));
FERRY_OPERATOR(HardSwish, (FloatMap([](auto x) {
                 using T = decltype(x);
                 return x * Clamp(x / 6 + T{0.5}, T{0}, T{1});
               })));

FERRY_OPERATOR(Celu, (FloatMapOfNode([](const Node& node) {
                 return [alpha = node.Float("alpha", 1)](auto x) {
                   using T = decltype(x);
                   return x > 0 ? x : x != x ? x : static_cast<T>(alpha) * std::expm1(x / static_cast<T>(alpha));
                 };
               })));
FERRY_OPERATOR(Elu, (FloatMapOfNode([](const Node& node) {
                 return [alpha = node.Float("alpha", 1)](auto x) { return ExpLinear<decltype(x)>(x, alpha); };
               })));
FERRY_OPERATOR(HardSigmoid, (FloatMapOfNode([](const Node& node) {
                 return [alpha = node.Float("alpha", 0.2f), beta = node.Float("beta", 0.5f)](auto x) {
                   using T = decltype(x);
                   return Clamp<T>(alpha * x + beta, 0, 1);
                 };
               })));
FERRY_OPERATOR(LeakyRelu, (FloatMapOfNode([](const Node& node) {
                 return [alpha = node.Float("alpha", 0.01f)](auto x) { return x < 0 ? alpha * x : x; };
               })));
FERRY_OPERATOR(Selu, (FloatMapOfNode([](const Node& node) {
                 return [alpha = node.Float("alpha", 1.67326319217681884765625f),
                         gamma = node.Float("gamma", 1.05070102214813232421875f)](auto x) {
                   return gamma * ExpLinear<decltype(x)>(x, alpha);
                 };
               })));
FERRY_OPERATOR(Swish, (FloatMapOfNode([](const Node& node) {
                 return [alpha = node.Float("alpha", 1)](auto x) { return x * Sigmoid<decltype(x)>(alpha * x); };
               })));
FERRY_OPERATOR(ThresholdedRelu, (FloatMapOfNode([](const Node& node) {
                 return [alpha = node.Float("alpha", 1)](auto x) {
                   using T = decltype(x);
                   return x > alpha ? x : T{0};
                 };
               })));

static void ComputeGelu(OpContext& context) {
  std::string approximate = context.node().String("approximate", "none");
  if (approximate == "none") return MapElements(context, FloatTypes{}, [](auto x) { return GeluExact(x); });
  Require(approximate == "tanh", "attribute 'approximate' must be \"none\" or \"tanh\", is \"", Printable(approximate),
          "\"");
  MapElements(context, FloatTypes{}, [](auto x) { return GeluTanh(x); });
}

FERRY_OPERATOR(Gelu, (ElementMap(ComputeGelu)));

}  // namespace ferry
