#include "ops/support/conv.h"

#include "base/error.h"

namespace ferry {

namespace {

void RequireFit(const SymbolicShape& x, const SymbolicShape& w, int64_t groups) {
  Require(w.size() == x.size(), "input ", x, " and weights ", w, " have different ranks");
  if (!x[1].known() || !w[1].known()) return;
  Dim channels = w[1] * Dim(groups);
  Require(groups >= 1 && SameDim(x[1], channels), "input ", x, " has ", x[1], " channels; weights ", w, " in ", groups,
          " groups take ", w[1], " each");
}

}  // namespace

bool ConvPlan::is_pointwise() const {
  return std::all_of(axes.begin(), axes.end(), [](const WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
  });
}

std::vector<int64_t> ConvPlan::WeightOffsets() const {
  std::vector<int64_t> offsets;
  for (int64_t image = 0; image < batch; ++image)
    for (int64_t group = 0; group < groups; ++group) offsets.push_back(group * group_features * depth());
  return offsets;
}

ConvPlan PlanConv(const Node& node, const Shape& x, const Shape& w) {
  Require(x.rank() >= 3, "the input needs a batch, channels and at least one spatial axis, its shape is ", x);
  ConvPlan plan;
  plan.batch = x[0];
  plan.channels = x[1];
  plan.features = w[0];
  plan.groups = node.Int("group", 1);
  plan.group_channels = w[1];
  RequireFit(ToSymbolic(x), ToSymbolic(w), plan.groups);
  Require(plan.features % plan.groups == 0, plan.features, " output channels cannot be split into ", plan.groups,
          " groups");
  plan.group_features = plan.features / plan.groups;
  SymbolicShape kernel = ToSymbolic(Shape(w.dims().subspan(2)));
  WindowAttributes window = WindowAttributes::Read(node, x.rank() - 2, kernel);
  plan.axes = PlanWindow(window, x.dims().subspan(2));
  plan.counts = CountWindow(plan.axes);
  CheckedProduct(plan.group_channels, plan.counts.taps);
  plan.output = Shape{plan.batch, plan.features};
  for (const WindowAxis& axis : plan.axes) plan.output.push_back(axis.output);
  plan.output.ElementCount();
  return plan;
}

void InferConv(InferContext& context, size_t x_input, size_t w_input, DType dtype) {
  const SymbolicShape* x = context.InputShape(x_input);
  const SymbolicShape* w = context.InputShape(w_input);
  if (!x && !w) return context.SetOutput(0, dtype);
  size_t rank = x ? x->size() : w->size();
  Require(rank >= 3, "the input needs a batch, channels and at least one spatial axis, its shape is ", x ? *x : *w);
  if (x && w) RequireFit(*x, *w, context.node().Int("group", 1));
  SymbolicShape kernel = w ? SymbolicShape(w->begin() + 2, w->end()) : SymbolicShape(rank - 2);
  WindowAttributes window = WindowAttributes::Read(context.node(), rank - 2, kernel);
  SymbolicShape out = {x ? (*x)[0] : Dim(), w ? (*w)[0] : Dim()};
  for (size_t i = 0; i < rank - 2; ++i) out.push_back(InferWindow(window, i, x ? (*x)[i + 2] : Dim()));
  context.SetOutput(0, dtype, std::move(out));
}

void RequirePerChannel(const Shape& shape, int64_t features, const char* what) {
  Require(shape.rank() == 1 && shape[0] == features, what, " must have shape [", features, "], has ", shape);
}

}  // namespace ferry
