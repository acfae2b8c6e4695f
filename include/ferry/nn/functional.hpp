// Arithmetic and the usual functions on tensors.
#pragma once

#include <cmath>

#include "ferry/nn/tensor.hpp"

namespace ferry {
inline namespace api_v1 {
namespace nn {

// Both sides broadcast and have one type; a number takes the tensor's type.
#define FERRY_NN_BINARY(SYMBOL, OP_TYPE)                                                                     \
  inline Tensor operator SYMBOL(const Tensor& a, const Tensor& b) { return op(OP_TYPE, {a, b}); }            \
  inline Tensor operator SYMBOL(const Tensor& a, double b) { return a SYMBOL Tensor::scalar(b, a.dtype()); } \
  inline Tensor operator SYMBOL(double a, const Tensor& b) { return Tensor::scalar(a, b.dtype()) SYMBOL b; }
FERRY_NN_BINARY(+, "Add")
FERRY_NN_BINARY(-, "Sub")
FERRY_NN_BINARY(*, "Mul")
FERRY_NN_BINARY(/, "Div")
FERRY_NN_BINARY(>, "Greater")
FERRY_NN_BINARY(<, "Less")
FERRY_NN_BINARY(>=, "GreaterOrEqual")
FERRY_NN_BINARY(<=, "LessOrEqual")
#undef FERRY_NN_BINARY
inline Tensor operator-(const Tensor& x) { return op("Neg", {x}); }
inline Tensor eq(const Tensor& a, const Tensor& b) { return op("Equal", {a, b}); }

inline Tensor exp(const Tensor& x) { return op("Exp", {x}); }
inline Tensor log(const Tensor& x) { return op("Log", {x}); }
inline Tensor sqrt(const Tensor& x) { return op("Sqrt", {x}); }
inline Tensor abs(const Tensor& x) { return op("Abs", {x}); }
inline Tensor pow(const Tensor& x, double exponent) { return op("Pow", {x, Tensor::scalar(exponent, x.dtype())}); }
inline Tensor clamp(const Tensor& x, double low, double high) {
  return op("Clip", {x, Tensor::scalar(low, x.dtype()), Tensor::scalar(high, x.dtype())});
}
inline Tensor where(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  return op("Where", {condition, yes, no});
}
inline Tensor matmul(const Tensor& a, const Tensor& b) { return op("MatMul", {a, b}); }
inline Tensor cat(const std::vector<Tensor>& parts, int64_t axis = 0) { return op("Concat", parts, {{"axis", axis}}); }
inline Tensor stack(const std::vector<Tensor>& parts, int64_t axis = 0) {
  std::vector<Tensor> rows;
  for (const Tensor& part : parts) rows.push_back(part.unsqueeze(axis));
  return cat(rows, axis);
}

inline Tensor relu(const Tensor& x) { return op("Relu", {x}); }
inline Tensor relu6(const Tensor& x) { return clamp(x, 0, 6); }
inline Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01) {
  return op("LeakyRelu", {x}, {{"alpha", negative_slope}});
}
inline Tensor elu(const Tensor& x, double alpha = 1) { return op("Elu", {x}, {{"alpha", alpha}}); }
inline Tensor selu(const Tensor& x) { return op("Selu", {x}); }
// `approximate`: "none" by the error function, "tanh" by a hyperbolic tangent.
inline Tensor gelu(const Tensor& x, const char* approximate = "none") {
  return op("Gelu", {x}, {{"approximate", approximate}});
}
inline Tensor sigmoid(const Tensor& x) { return op("Sigmoid", {x}); }
inline Tensor tanh(const Tensor& x) { return op("Tanh", {x}); }
inline Tensor silu(const Tensor& x) { return x * sigmoid(x); }
inline Tensor mish(const Tensor& x) { return op("Mish", {x}); }
inline Tensor softplus(const Tensor& x) { return op("Softplus", {x}); }
inline Tensor hardsigmoid(const Tensor& x) { return op("HardSigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}); }
inline Tensor hardswish(const Tensor& x) { return op("HardSwish", {x}); }
inline Tensor softmax(const Tensor& x, int64_t axis = -1) { return op("Softmax", {x}, {{"axis", x.NormalAxis(axis)}}); }
inline Tensor log_softmax(const Tensor& x, int64_t axis = -1) {
  return op("LogSoftmax", {x}, {{"axis", x.NormalAxis(axis)}});
}

// numpy's rule: |a - b| <= atol + rtol * |b| for every element; NaN equals nothing.
struct Difference {
  double max_absolute = 0;
  bool allclose = true;
};
inline Difference compare(std::span<const float> a, std::span<const float> b, double rtol = 1e-3, double atol = 1e-5) {
  Difference difference{.allclose = a.size() == b.size()};
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    double distance = std::fabs(static_cast<double>(a[i]) - b[i]);
    difference.max_absolute = std::max(difference.max_absolute, distance);
    if (!(distance <= atol + rtol * std::fabs(b[i]))) difference.allclose = false;
  }
  return difference;
}

}  // namespace nn
}  // namespace api_v1
}  // namespace ferry
