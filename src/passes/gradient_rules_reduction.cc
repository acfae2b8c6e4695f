#include "passes/gradient_builder.h"

namespace ferry {
namespace {

using Context = GradientContext;

// A reduced value (or its gradient) with the reduced axes put back as ones, so that it broadcasts to the input.
std::string KeepAxes(Context& c, const std::string& reduced) {
  bool has_axes = c.node().HasInput(1);
  if (c.node().Int("keepdims", 1) != 0 || !has_axes) return reduced;  // a scalar broadcasts as it is
  return c.Op("Unsqueeze", {reduced, c.In(1)});
}

// True when the node gives back its input: no axes, and it says that means none.
bool IsNoop(Context& c) { return !c.node().HasInput(1) && c.node().Int("noop_with_empty_axes", 0) != 0; }

std::string Spread(Context& c, const std::string& value) {
  return c.Op("Expand", {KeepAxes(c, value), c.ShapeOf(c.In(0))});
}

void ReduceSum(Context& c) { c.Give(0, IsNoop(c) ? c.G() : Spread(c, c.G())); }

void ReduceMean(Context& c) {
  if (IsNoop(c)) return c.Give(0, c.G());
  std::string count = c.Op("Div", {c.Op("Size", {c.In(0)}), c.Op("Size", {c.Out()})});
  c.Give(0, Spread(c, c.Div(c.G(), c.CastLike(count, c.G()))));
}

// Elements that share the extreme value share its gradient.
void Extreme(Context& c) {
  if (IsNoop(c)) return c.Give(0, c.G());
  std::string chosen = c.CastLike(c.Op("Equal", {c.In(0), KeepAxes(c, c.Out())}), c.In(0));
  std::vector<std::string> inputs{chosen};
  if (c.node().HasInput(1)) inputs.push_back(c.In(1));
  std::string ties = c.Op("ReduceSum", inputs, {{"keepdims", int64_t{1}}});
  c.Give(0, c.Mul(c.Div(KeepAxes(c, c.G()), ties), chosen));
}

void ReduceSumSquare(Context& c) { c.Give(0, c.Mul(KeepAxes(c, c.G()), c.Mul(c.Scalar(2, c.In(0)), c.In(0)))); }
void ReduceL1(Context& c) { c.Give(0, c.Mul(KeepAxes(c, c.G()), c.Op("Sign", {c.In(0)}))); }
void ReduceL2(Context& c) {
  // At the origin the norm has no slope; 0 is the usual choice.
  std::string norm = KeepAxes(c, c.Out()), zero = c.Scalar(0, c.In(0));
  std::string flat = c.Op("Equal", {norm, zero});
  std::string direction = c.Div(c.In(0), c.Where(flat, c.Scalar(1, c.In(0)), norm));
  c.Give(0, c.Mul(KeepAxes(c, c.G()), direction));
}
void ReduceLogSum(Context& c) { c.Give(0, Spread(c, c.Div(c.G(), c.Op("Exp", {c.Out()})))); }
void ReduceLogSumExp(Context& c) {
  c.Give(0, c.Mul(KeepAxes(c, c.G()), c.Op("Exp", {c.Sub(c.In(0), KeepAxes(c, c.Out()))})));
}

// Σ over the softmax's axis, kept.
std::string AxisSum(Context& c, const std::string& a) { return c.Sum(a, {c.node().Int("axis", -1)}, true); }

void Softmax(Context& c) { c.Give(0, c.Mul(c.Out(), c.Sub(c.G(), AxisSum(c, c.Mul(c.G(), c.Out()))))); }
void LogSoftmax(Context& c) { c.Give(0, c.Sub(c.G(), c.Mul(c.Op("Exp", {c.Out()}), AxisSum(c, c.G())))); }

}  // namespace

std::span<const GradientRule> ReductionGradients() {
  static constexpr GradientRule kRules[] = {
      {"ReduceSum", ReduceSum}, {"ReduceMean", ReduceMean},           {"ReduceMax", Extreme},
      {"ReduceMin", Extreme},   {"ReduceSumSquare", ReduceSumSquare}, {"ReduceL1", ReduceL1},
      {"ReduceL2", ReduceL2},   {"ReduceLogSum", ReduceLogSum},       {"ReduceLogSumExp", ReduceLogSumExp},
      {"Softmax", Softmax},     {"LogSoftmax", LogSoftmax},
  };
  return kRules;
}

}  // namespace ferry
