// Activation functions.
#include <limits>

#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

Result Relu(Call& c) { return c.b.Widened("Relu", {c.Tensor(0)}); }

Operand ClipTo(Builder& b, const Operand& x, const Scalar& low, const Scalar& high) {
  return b.Widened("Clip", {x, b.Of(low, x.dtype()), b.Of(high, x.dtype())});
}
Result Relu6(Call& c) { return ClipTo(c.b, c.Tensor(0), Scalar(0), Scalar(6)); }
Result Hardtanh(Call& c) { return ClipTo(c.b, c.Tensor(0), c.Number(1), c.Number(2)); }
Result LeakyRelu(Call& c) {
  return c.b.Widened("LeakyRelu", {c.Tensor(0)}, {{"alpha", static_cast<float>(c.Float(1))}});
}
// scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))
Result Elu(Call& c) {
  Operand x = c.Tensor(0);
  double alpha = c.Float(1), scale = c.Float(2), input_scale = c.Float(3);
  if (input_scale == 1) {
    Operand y = c.b.Widened("Elu", {x}, {{"alpha", static_cast<float>(alpha)}});
    return scale == 1 ? y : c.b.Mul(y, scale);
  }
  Operand grown = c.b.Mul(c.b.Sub(c.b.Exp(c.b.Mul(x, input_scale)), 1), alpha);
  return c.b.Mul(c.b.Where(c.b.Greater(x, 0), x, grown), scale);
}
Result Selu(Call& c) { return c.b.Widened("Selu", {c.Tensor(0)}); }
Result Celu(Call& c) {
  Operand x = c.Tensor(0);
  double alpha = c.Float(1);
  if (x.dtype() == DType::kFloat && c.b.Has("Celu"))
    return c.b.Emit("Celu", {x}, {{"alpha", static_cast<float>(alpha)}});
  Operand below = c.b.Mul(c.b.Widened("Elu", {c.b.Div(x, alpha)}), alpha);
  return c.b.Where(c.b.Greater(x, 0), x, below);
}

Result Gelu(Call& c) {
  Operand x = c.Tensor(0);
  bool tanh = c.Text(1) == "tanh";
  if (c.b.Has("Gelu")) return c.b.Widened("Gelu", {x}, {{"approximate", std::string(tanh ? "tanh" : "none")}});
  Operand inner;
  if (tanh) {
    Operand cubic = c.b.Mul(c.b.Mul(c.b.Mul(x, x), x), 0.044715);
    inner = c.b.Widened("Tanh", {c.b.Mul(c.b.Add(x, cubic), 0.7978845608028654)});
  } else {
    inner = c.b.Widened("Erf", {c.b.Mul(x, 0.7071067811865476)});
  }
  return c.b.Mul(c.b.Mul(x, 0.5), c.b.Add(inner, 1));
}
Result Silu(Call& c) {
  Operand x = c.Tensor(0);
  if (c.b.Has("Swish")) return c.b.Widened("Swish", {x});
  return c.b.Mul(x, c.b.Widened("Sigmoid", {x}));
}
Result Mish(Call& c) {
  Operand x = c.Tensor(0);
  if (c.b.Has("Mish")) return c.b.Widened("Mish", {x});
  return c.b.Mul(x, c.b.Widened("Tanh", {c.b.Widened("Softplus", {x})}));
}
// relu6(x + 3) / 6
Operand HardsigmoidOf(Builder& b, const Operand& x) {
  return b.Widened("HardSigmoid", {x}, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
}
Result Hardsigmoid(Call& c) { return HardsigmoidOf(c.b, c.Tensor(0)); }
Result Hardswish(Call& c) {
  Operand x = c.Tensor(0);
  if (c.b.Has("HardSwish")) return c.b.Widened("HardSwish", {x});
  return c.b.Mul(x, HardsigmoidOf(c.b, x));
}
// x outside [-lambd, lambd], 0 inside; NaN stays.
Result Hardshrink(Call& c) {
  Operand x = c.Tensor(0);
  double lambd = c.Float(1);
  Operand inside = c.b.And(c.b.GreaterOrEqual(x, -lambd), c.b.LessOrEqual(x, lambd));
  return c.b.Where(inside, c.b.NumberLike(0, x), x);
}
Result Softshrink(Call& c) {
  Operand x = c.Tensor(0);
  double lambd = c.Float(1);
  Operand below = c.b.Where(c.b.Less(x, -lambd), c.b.Add(x, lambd), c.b.Mul(x, 0));
  return c.b.Where(c.b.Greater(x, lambd), c.b.Sub(x, lambd), below);
}
Result Tanhshrink(Call& c) {
  Operand x = c.Tensor(0);
  return c.b.Sub(x, c.b.Widened("Tanh", {x}));
}
Operand SoftplusOf(Builder& b, const Operand& x) { return b.Widened("Softplus", {x}); }
Result Softplus(Call& c) {
  Operand x = c.Tensor(0);
  double beta = c.Float(1), threshold = c.Float(2);
  Operand scaled = beta == 1 ? x : c.b.Mul(x, beta);
  Operand soft = SoftplusOf(c.b, scaled);
  if (beta != 1) soft = c.b.Div(soft, beta);
  // Above the threshold PyTorch takes x itself; from 20 on the two are the same float.
  if (threshold >= 20 && x.dtype() != DType::kDouble) return soft;
  return c.b.Where(c.b.Greater(scaled, threshold), x, soft);
}
Result Softsign(Call& c) { return c.b.Widened("Softsign", {c.Tensor(0)}); }
Result LogSigmoid(Call& c) { return c.b.Neg(SoftplusOf(c.b, c.b.Neg(c.Tensor(0)))); }
Result Threshold(Call& c) {
  Operand x = c.Tensor(0);
  Operand limit = c.b.Of(c.Number(1), x.dtype());
  return c.b.Where(c.b.LessOrEqual(x, limit), c.b.Of(c.Number(2), x.dtype()), x);
}
// One slope per channel (axis 1).
Result Prelu(Call& c) {
  Operand x = c.Tensor(0), slope = c.Tensor(1);
  if (slope.rank() == 1 && x.rank() > 2 && !SameDim(slope.dim(0), Dim(1))) {
    std::vector<int64_t> axes;
    for (size_t i = 2; i < x.rank(); ++i) axes.push_back(static_cast<int64_t>(i) - 1);
    slope = c.b.Unsqueeze(slope, axes);
  } else if (slope.rank() == 1 && x.rank() < 2) {
    slope = c.b.Reshape(slope, std::vector<int64_t>(x.rank(), 1));
  }
  return c.b.Widened("PRelu", {x, slope});
}
Result PreluKernel(Call& c) { return c.b.Widened("PRelu", {c.Tensor(0), c.Tensor(1)}); }
Result Glu(Call& c) {
  Operand x = c.Tensor(0);
  int64_t axis = static_cast<int64_t>(x.Axis(c.Int(1)));
  Dim size = x.dim(axis);
  Operands halves;
  if (size.known()) {
    halves = c.b.EmitMany("Split", {x, c.b.Ints({*size.value / 2, *size.value / 2})}, {{"axis", axis}}, 2);
  } else {
    Scalar half(Scalar::Kind::kInt, c.b.Div(c.b.SizeOf(x, axis), c.b.Ints({2})));
    halves = {c.b.Slice(x, axis, Scalar(0), half), c.b.Slice(x, axis, half, Scalar(INT64_MAX))};
  }
  return c.b.Mul(halves[0], c.b.Widened("Sigmoid", {halves[1]}));
}
Result Rrelu(Call& c) {
  if (c.Bool(3)) c.Unsupported("in training mode its slopes are random; export the module after eval()");
  return c.b.Widened("LeakyRelu", {c.Tensor(0)}, {{"alpha", static_cast<float>((c.Float(1) + c.Float(2)) / 2)}});
}

Result SoftmaxAlong(Call& c, const char* op_type) {
  Operand x = c.Tensor(0);
  DType dtype = c.Type(2, x.dtype());
  x = c.b.Cast(x, dtype);
  if (x.rank() == 0)
    return c.b.Reshape(c.b.Widened(op_type, {c.b.Reshape(x, {1})}, {{"axis", int64_t{0}}}), std::vector<int64_t>{});
  return c.b.Widened(op_type, {x}, {{"axis", static_cast<int64_t>(x.Axis(c.Int(1)))}});
}
Result Softmax(Call& c) { return SoftmaxAlong(c, "Softmax"); }
Result LogSoftmax(Call& c) { return SoftmaxAlong(c, "LogSoftmax"); }
// Rows of nothing but -inf give 0 instead of NaN.
Result SafeSoftmax(Call& c) {
  Builder& b = c.b;
  Operand x = b.Cast(c.Tensor(0), c.Type(2, c.Tensor(0).dtype()));
  if (x.rank() == 0) return Softmax(c);
  auto axis = static_cast<int64_t>(x.Axis(c.Int(1)));
  Operand largest = b.Reduce("ReduceMax", x, {axis}, true);
  Operand is_empty = b.Equal(largest, -std::numeric_limits<double>::infinity());
  return b.Where(is_empty, b.NumberLike(0, x), b.Widened("Softmax", {x}, {{"axis", axis}}));
}
// y (g - Σ g y), and g - e^y Σ g for the logarithm.
Result SoftmaxBackward(Call& c) {
  Builder& b = c.b;
  Operand gradient = c.Tensor(0), y = c.Tensor(1);
  int64_t axis = c.Int(2);
  if (c.op_name() == "_log_softmax_backward_data") {
    Operand sum = y.rank() == 0 ? gradient : b.Reduce("ReduceSum", gradient, {axis}, true);
    return b.Cast(b.Sub(gradient, b.Mul(b.Exp(y), sum)), c.Type(3, y.dtype()));
  }
  Operand product = b.Mul(gradient, y), sum = y.rank() == 0 ? product : b.Reduce("ReduceSum", product, {axis}, true);
  return b.Cast(b.Sub(product, b.Mul(y, sum)), c.Type(3, y.dtype()));
}
Result SoftmaxKernel(Call& c) {
  Operand x = c.Tensor(0);
  if (c.Bool(2)) x = c.b.Cast(x, DType::kFloat);
  const char* op_type = c.op_name() == "_softmax" ? "Softmax" : "LogSoftmax";
  return c.b.Widened(op_type, {x}, {{"axis", static_cast<int64_t>(x.Axis(c.Int(1)))}});
}

constexpr Rule kRules[] = {
    {"relu(Tensor self)", Relu},
    {"relu6(Tensor self)", Relu6},
    {"hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1)", Hardtanh},
    {"leaky_relu(Tensor self, Scalar negative_slope=0.01)", LeakyRelu},
    {"elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1)", Elu},
    {"selu(Tensor self)", Selu},
    {"celu(Tensor self, Scalar alpha=1.0)", Celu},
    {"gelu(Tensor self, *, str approximate=\"none\")", Gelu},
    {"silu(Tensor self)", Silu},
    {"mish(Tensor self)", Mish},
    {"hardsigmoid(Tensor self)", Hardsigmoid},
    {"hardswish(Tensor self)", Hardswish},
    {"hardshrink(Tensor self, Scalar lambd=0.5)", Hardshrink},
    {"softshrink(Tensor self, Scalar lambd=0.5)", Softshrink},
    {"tanhshrink(Tensor self)", Tanhshrink},
    {"softplus(Tensor self, Scalar beta=1, Scalar threshold=20)", Softplus},
    {"softsign(Tensor self)", Softsign},
    {"log_sigmoid(Tensor self)", LogSigmoid},
    {"threshold(Tensor self, Scalar threshold, Scalar value)", Threshold},
    {"prelu(Tensor self, Tensor weight)", Prelu},
    {"_prelu_kernel(Tensor self, Tensor weight)", PreluKernel},
    {"glu(Tensor self, int dim=-1)", Glu},
    {"rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, "
     "Generator? generator=None)",
     Rrelu},
    {"softmax.int(Tensor self, int dim, ScalarType? dtype=None)", Softmax},
    {"log_softmax.int(Tensor self, int dim, ScalarType? dtype=None)", LogSoftmax},
    {"special_softmax(Tensor self, int dim, ScalarType? dtype=None)", Softmax},
    {"special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None)", LogSoftmax},
    {"_safe_softmax(Tensor self, int dim, ScalarType? dtype=None)", SafeSoftmax},
    {"_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype)", SoftmaxBackward},
    {"_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype)", SoftmaxBackward},
    {"_softmax(Tensor self, int dim, bool half_to_float)", SoftmaxKernel},
    {"_log_softmax(Tensor self, int dim, bool half_to_float)", SoftmaxKernel},
};

}  // namespace

std::span<const Rule> ActivationRules() { return kRules; }

}  // namespace ferry::torch
