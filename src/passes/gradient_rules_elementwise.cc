#include <cmath>

#include "passes/gradient_builder.h"
#include "tensor/dtype.h"

namespace ferry {
namespace {

using Context = GradientContext;

constexpr double kPi = 3.14159265358979323846;

// dx = g · slope, for operators of one input.
void GiveSlope(Context& c, const std::string& slope) { c.Give(0, c.Mul(c.G(), slope)); }
// dx = g where the condition holds, else 0.
void GiveWhere(Context& c, const std::string& condition) { c.Give(0, c.Mul(c.G(), c.CastLike(condition, c.In(0)))); }

std::string OneMinusSquare(Context& c, const std::string& a) { return c.Sub(c.Scalar(1, a), c.Mul(a, a)); }
std::string OnePlusSquare(Context& c, const std::string& a) { return c.Add(c.Scalar(1, a), c.Mul(a, a)); }

void Identity(Context& c) { c.Give(0, c.G()); }
void Neg(Context& c) { c.Give(0, c.Neg(c.G())); }
void Abs(Context& c) { GiveSlope(c, c.Op("Sign", {c.In(0)})); }
void Exp(Context& c) { GiveSlope(c, c.Out()); }
void Log(Context& c) { c.Give(0, c.Div(c.G(), c.In(0))); }
void Sqrt(Context& c) { c.Give(0, c.Div(c.G(), c.Mul(c.Scalar(2, c.Out()), c.Out()))); }
void Reciprocal(Context& c) { GiveSlope(c, c.Neg(c.Mul(c.Out(), c.Out()))); }
void Sin(Context& c) { GiveSlope(c, c.Op("Cos", {c.In(0)})); }
void Cos(Context& c) { GiveSlope(c, c.Neg(c.Op("Sin", {c.In(0)}))); }
void Tan(Context& c) { GiveSlope(c, OnePlusSquare(c, c.Out())); }
void Asin(Context& c) { c.Give(0, c.Div(c.G(), c.Op("Sqrt", {OneMinusSquare(c, c.In(0))}))); }
void Acos(Context& c) { c.Give(0, c.Neg(c.Div(c.G(), c.Op("Sqrt", {OneMinusSquare(c, c.In(0))})))); }
void Atan(Context& c) { c.Give(0, c.Div(c.G(), OnePlusSquare(c, c.In(0)))); }
void Sinh(Context& c) { GiveSlope(c, c.Op("Cosh", {c.In(0)})); }
void Cosh(Context& c) { GiveSlope(c, c.Op("Sinh", {c.In(0)})); }
void Tanh(Context& c) { GiveSlope(c, OneMinusSquare(c, c.Out())); }
void Asinh(Context& c) { c.Give(0, c.Div(c.G(), c.Op("Sqrt", {OnePlusSquare(c, c.In(0))}))); }
void Acosh(Context& c) {
  std::string square = c.Sub(c.Mul(c.In(0), c.In(0)), c.Scalar(1, c.In(0)));
  c.Give(0, c.Div(c.G(), c.Op("Sqrt", {square})));
}
void Atanh(Context& c) { c.Give(0, c.Div(c.G(), OneMinusSquare(c, c.In(0)))); }
void Erf(Context& c) {
  std::string bell = c.Op("Exp", {c.Neg(c.Mul(c.In(0), c.In(0)))});
  GiveSlope(c, c.Mul(c.Scalar(2 / std::sqrt(kPi), c.In(0)), bell));
}
void Sigmoid(Context& c) { GiveSlope(c, c.Mul(c.Out(), c.Sub(c.Scalar(1, c.Out()), c.Out()))); }
void Relu(Context& c) { GiveWhere(c, c.Op("Greater", {c.In(0), c.Scalar(0, c.In(0))})); }
void ThresholdedRelu(Context& c) {
  GiveWhere(c, c.Op("Greater", {c.In(0), c.Scalar(c.node().Float("alpha", 1.0f), c.In(0))}));
}
// One slope above zero, another below.
void GiveTwoSlopes(Context& c, const std::string& above, const std::string& below) {
  GiveSlope(c, c.Where(c.Op("Greater", {c.In(0), c.Scalar(0, c.In(0))}), above, below));
}
void LeakyRelu(Context& c) {
  GiveTwoSlopes(c, c.Scalar(1, c.In(0)), c.Scalar(c.node().Float("alpha", 0.01f), c.In(0)));
}
void Elu(Context& c) {
  double alpha = c.node().Float("alpha", 1.0f);
  GiveTwoSlopes(c, c.Scalar(1, c.In(0)), c.Add(c.Out(), c.Scalar(alpha, c.In(0))));
}
void Selu(Context& c) {
  double alpha = c.node().Float("alpha", 1.67326319217681884765625f),
         gamma = c.node().Float("gamma", 1.05070102214813232421875f);
  GiveTwoSlopes(c, c.Scalar(gamma, c.In(0)), c.Add(c.Out(), c.Scalar(alpha * gamma, c.In(0))));
}
void Celu(Context& c) {
  std::string alpha = c.Scalar(c.node().Float("alpha", 1.0f), c.In(0));
  GiveTwoSlopes(c, c.Scalar(1, c.In(0)), c.Op("Exp", {c.Div(c.In(0), alpha)}));
}
void Softplus(Context& c) { GiveSlope(c, c.Op("Sigmoid", {c.In(0)})); }
void Softsign(Context& c) {
  std::string below = c.Add(c.Scalar(1, c.In(0)), c.Op("Abs", {c.In(0)}));
  c.Give(0, c.Div(c.G(), c.Mul(below, below)));
}
// The part of a clamped line that is not flat.
std::string InsideUnit(Context& c, const std::string& line) {
  return c.CastLike(c.Op("And", {c.Op("Greater", {line, c.Scalar(0, line)}), c.Op("Less", {line, c.Scalar(1, line)})}),
                    line);
}
void HardSigmoid(Context& c) {
  std::string alpha = c.Scalar(c.node().Float("alpha", 0.2f), c.In(0)),
              beta = c.Scalar(c.node().Float("beta", 0.5f), c.In(0));
  GiveSlope(c, c.Mul(alpha, InsideUnit(c, c.Add(c.Mul(alpha, c.In(0)), beta))));
}
void HardSwish(Context& c) {
  const std::string& x = c.In(0);
  std::string sixth = c.Scalar(1.0 / 6.0, x), line = c.Add(c.Mul(x, sixth), c.Scalar(0.5, x));
  std::string gate = c.Op("Max", {c.Scalar(0, x), c.Op("Min", {c.Scalar(1, x), line})});
  GiveSlope(c, c.Add(gate, c.Mul(c.Mul(x, sixth), InsideUnit(c, line))));
}
// y = x·s(a·x): slope s + x·a·s·(1 - s).
void GiveSwish(Context& c, double alpha) {
  const std::string& x = c.In(0);
  std::string scaled = c.Mul(c.Scalar(alpha, x), x), s = c.Op("Sigmoid", {scaled});
  GiveSlope(c, c.Add(s, c.Mul(scaled, c.Mul(s, c.Sub(c.Scalar(1, x), s)))));
}
void Swish(Context& c) { GiveSwish(c, c.node().Float("alpha", 1.0f)); }
void Mish(Context& c) {
  const std::string& x = c.In(0);
  std::string t = c.Op("Tanh", {c.Op("Softplus", {x})}), s = c.Op("Sigmoid", {x});
  GiveSlope(c, c.Add(t, c.Mul(c.Mul(x, s), OneMinusSquare(c, t))));
}
void Gelu(Context& c) {
  const std::string& x = c.In(0);
  std::string half = c.Scalar(0.5, x), one = c.Scalar(1, x);
  if (c.node().String("approximate", "none") == "tanh") {
    std::string k = c.Scalar(std::sqrt(2 / kPi), x), cube = c.Scalar(0.044715, x), square = c.Mul(x, x);
    std::string t = c.Op("Tanh", {c.Mul(k, c.Mul(x, c.Add(one, c.Mul(cube, square))))});
    std::string inner = c.Mul(k, c.Add(one, c.Mul(c.Scalar(3 * 0.044715, x), square)));
    std::string steep = c.Mul(c.Mul(x, inner), OneMinusSquare(c, t));
    return GiveSlope(c, c.Mul(half, c.Add(c.Add(one, t), steep)));
  }
  std::string cdf = c.Mul(half, c.Add(one, c.Op("Erf", {c.Mul(x, c.Scalar(std::sqrt(0.5), x))})));
  std::string density = c.Mul(c.Scalar(1 / std::sqrt(2 * kPi), x), c.Op("Exp", {c.Neg(c.Mul(half, c.Mul(x, x)))}));
  GiveSlope(c, c.Add(cdf, c.Mul(x, density)));
}

void Add(Context& c) {
  c.GiveReduced(0, c.G());
  c.GiveReduced(1, c.G());
}
void Sub(Context& c) {
  c.GiveReduced(0, c.G());
  if (c.Needs(1)) c.GiveReduced(1, c.Neg(c.G()));
}
void Mul(Context& c) {
  if (c.Needs(0)) c.GiveReduced(0, c.Mul(c.G(), c.In(1)));
  if (c.Needs(1)) c.GiveReduced(1, c.Mul(c.G(), c.In(0)));
}
void Div(Context& c) {
  if (c.Needs(0)) c.GiveReduced(0, c.Div(c.G(), c.In(1)));
  if (c.Needs(1)) c.GiveReduced(1, c.Neg(c.Div(c.Mul(c.G(), c.Out()), c.In(1))));
}
void Pow(Context& c) {
  const std::string& x = c.In(0);
  std::string p = c.CastLike(c.In(1), x), zero = c.Scalar(0, x);
  if (c.Needs(0)) {
    // x⁰ is constant, also at x = 0, where 0·x⁻¹ is not a number.
    std::string slope = c.Mul(p, c.Op("Pow", {x, c.Sub(p, c.Scalar(1, x))}));
    c.GiveReduced(0, c.Mul(c.G(), c.Where(c.Op("Equal", {p, zero}), zero, slope)));
  }
  if (c.Needs(1)) {
    std::string log = c.Op("Log", {c.Where(c.Op("Greater", {x, zero}), x, c.Scalar(1, x))});
    c.GiveReduced(1, c.CastLike(c.Mul(c.G(), c.Mul(c.Out(), log)), c.In(1)));
  }
}
void Sum(Context& c) {
  for (size_t i = 0; i < c.node().inputs.size(); ++i)
    if (c.Needs(i)) c.GiveReduced(i, c.G());
}
void Mean(Context& c) {
  std::string share = c.Div(c.G(), c.Scalar(static_cast<double>(c.node().inputs.size()), c.G()));
  for (size_t i = 0; i < c.node().inputs.size(); ++i)
    if (c.Needs(i)) c.GiveReduced(i, share);
}
// Max and Min: inputs that share an extreme value share its gradient.
void Extreme(Context& c) {
  std::vector<std::string> chosen;
  for (const std::string& input : c.node().inputs)
    chosen.push_back(c.CastLike(c.Op("Equal", {input, c.Out()}), c.Out()));
  std::string share = c.Div(c.G(), c.Op("Sum", chosen));
  for (size_t i = 0; i < chosen.size(); ++i)
    if (c.Needs(i)) c.GiveReduced(i, c.Mul(share, chosen[i]));
}
void Where(Context& c) {
  std::string zero = c.Scalar(0, c.G());
  if (c.Needs(1)) c.GiveReduced(1, c.Where(c.In(0), c.G(), zero));
  if (c.Needs(2)) c.GiveReduced(2, c.Where(c.In(0), zero, c.G()));
}
void Clip(Context& c) {
  if (c.Needs(1) || c.Needs(2)) c.Unsupported("its limits depend on the variables");
  std::string g = c.G(), zero = c.Scalar(0, c.In(0));
  if (c.node().HasInput(1)) g = c.Where(c.Op("Less", {c.In(0), c.In(1)}), zero, g);
  if (c.node().HasInput(2)) g = c.Where(c.Op("Greater", {c.In(0), c.In(2)}), zero, g);
  c.Give(0, g);
}
void PRelu(Context& c) {
  const std::string& x = c.In(0);
  std::string zero = c.Scalar(0, x), negative = c.Op("Less", {x, zero});
  if (c.Needs(0)) c.Give(0, c.Where(negative, c.Mul(c.G(), c.In(1)), c.G()));
  if (c.Needs(1)) c.GiveReduced(1, c.Where(negative, c.Mul(c.G(), x), zero));
}
void Cast(Context& c) {
  std::optional<DType> from = c.TypeOf(c.In(0)), to = c.TypeOf(c.Out());
  if (!from || !to) c.Unsupported("the types it casts between must be known beforehand");
  if (IsFloating(*from) && IsFloating(*to)) c.Give(0, c.CastLike(c.G(), c.In(0)));
}

}  // namespace

std::span<const GradientRule> ElementwiseGradients() {
  static constexpr GradientRule kRules[] = {
      {"Identity", Identity},
      {"Neg", Neg},
      {"Abs", Abs},
      {"Exp", Exp},
      {"Log", Log},
      {"Sqrt", Sqrt},
      {"Reciprocal", Reciprocal},
      {"Sin", Sin},
      {"Cos", Cos},
      {"Tan", Tan},
      {"Asin", Asin},
      {"Acos", Acos},
      {"Atan", Atan},
      {"Sinh", Sinh},
      {"Cosh", Cosh},
      {"Tanh", Tanh},
      {"Asinh", Asinh},
      {"Acosh", Acosh},
      {"Atanh", Atanh},
      {"Erf", Erf},
      {"Sigmoid", Sigmoid},
      {"Relu", Relu},
      {"ThresholdedRelu", ThresholdedRelu},
      {"LeakyRelu", LeakyRelu},
      {"Elu", Elu},
      {"Selu", Selu},
      {"Celu", Celu},
      {"Softplus", Softplus},
      {"Softsign", Softsign},
      {"HardSigmoid", HardSigmoid},
      {"HardSwish", HardSwish},
      {"Swish", Swish},
      {"Mish", Mish},
      {"Gelu", Gelu},
      {"Add", Add},
      {"Sub", Sub},
      {"Mul", Mul},
      {"Div", Div},
      {"Pow", Pow},
      {"Sum", Sum},
      {"Mean", Mean},
      {"Max", Extreme},
      {"Min", Extreme},
      {"Where", Where},
      {"Clip", Clip},
      {"PRelu", PRelu},
      {"Cast", Cast},
      {"CastLike", Cast},
      // Flat wherever they have a slope at all.
      {"Sign", nullptr},
      {"Floor", nullptr},
      {"Ceil", nullptr},
      {"Round", nullptr},
      {"Equal", nullptr},
      {"Greater", nullptr},
      {"GreaterOrEqual", nullptr},
      {"Less", nullptr},
      {"LessOrEqual", nullptr},
      {"And", nullptr},
      {"Or", nullptr},
      {"Xor", nullptr},
      {"Not", nullptr},
      {"IsNaN", nullptr},
      {"IsInf", nullptr},
  };
  return kRules;
}

}  // namespace ferry
