#include "ops/support/nhwc.h"

#include <algorithm>

#include "base/error.h"

namespace ferry {

Shape ToChannelsLast(const Shape& shape) {
  Shape moved = shape;
  std::rotate(moved.begin() + 1, moved.begin() + 2, moved.end());
  return moved;
}

Shape ToChannelsFirst(const Shape& shape) {
  Shape moved = shape;
  std::rotate(moved.begin() + 1, moved.end() - 1, moved.end());
  return moved;
}

SymbolicShape ToChannelsLast(const SymbolicShape& shape) {
  SymbolicShape moved = shape;
  std::rotate(moved.begin() + 1, moved.begin() + 2, moved.end());
  return moved;
}

SymbolicShape ToChannelsFirst(const SymbolicShape& shape) {
  SymbolicShape moved = shape;
  std::rotate(moved.begin() + 1, moved.end() - 1, moved.end());
  return moved;
}

std::vector<int64_t> ChannelsLastOrder(size_t rank) {
  std::vector<int64_t> order = {0};
  for (size_t axis = 2; axis < rank; ++axis) order.push_back(static_cast<int64_t>(axis));
  order.push_back(1);
  return order;
}

std::vector<int64_t> ChannelsFirstOrder(size_t rank) {
  std::vector<int64_t> order = {0, static_cast<int64_t>(rank) - 1};
  for (size_t axis = 1; axis + 1 < rank; ++axis) order.push_back(static_cast<int64_t>(axis));
  return order;
}

std::array<WindowAxis, 3> ThreeAxes(std::span<const WindowAxis> axes) {
  Require(axes.size() >= 1 && axes.size() <= 3, "images have one to three spatial axes, not ", axes.size());
  std::array<WindowAxis, 3> three;
  three.fill(WindowAxis{.input = 1, .output = 1});
  std::copy(axes.begin(), axes.end(), three.end() - static_cast<std::ptrdiff_t>(axes.size()));
  return three;
}

NhwcConvPlan PlanNhwcConv(const Node& node, const Shape& x, const Shape& w) {
  Require(x.rank() >= 3, "the input needs a batch, channels and at least one spatial axis, its shape is ", x);
  NhwcConvPlan plan;
  plan.channels_first = node.Int("channels_first", 0) != 0;
  plan.conv = PlanConv(node, plan.channels_first ? x : ToChannelsFirst(x), w);
  plan.output = ToChannelsLast(plan.conv.output);
  plan.axes = ThreeAxes(plan.conv.axes);
  return plan;
}

Activation ActivationBefore(const Node& conv) {
  const std::vector<float> numbers = conv.Floats("before");
  if (numbers.size() != 3 || !(numbers[0] >= 0 && numbers[0] < 256)) return {};
  return {static_cast<ActivationKind>(numbers[0]), numbers[1], numbers[2]};
}

InputScaling InputScalingOf(const OpContext& context, int64_t channels, const Activation& before) {
  const Tensor* factor = context.OptionalInput(4);
  if (!factor) return {};
  const Tensor& offset = context.Input(5);
  RequirePerChannel(factor->shape(), channels, "the factor");
  RequirePerChannel(offset.shape(), channels, "the offset");
  return {factor->Data<float>(), offset.Data<float>(), before};
}

void InferNhwcConv(InferContext& context, DType type) {
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* w = context.InputShape(1);
  if (!x || !w || x->size() < 3) return context.SetOutput(0, type);
  bool first = context.node().Int("channels_first", 0) != 0;
  SymbolicShape image = first ? *x : ToChannelsFirst(*x);
  Require(image.size() == w->size(), "input ", image, " and weights ", *w, " have different ranks");
  SymbolicShape kernel(w->begin() + 2, w->end());
  WindowAttributes window = WindowAttributes::Read(context.node(), image.size() - 2, kernel);
  SymbolicShape out = {image[0], (*w)[0]};
  for (size_t i = 0; i < image.size() - 2; ++i) out.push_back(InferWindow(window, i, image[i + 2]));
  context.SetOutput(0, type, ToChannelsLast(out));
}

}  // namespace ferry
