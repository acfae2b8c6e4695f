#include "ops/support/conv_transpose.h"

#include <algorithm>

namespace ferry {
namespace {

struct TransposeAttributes {
  WindowAttributes window;
  std::vector<int64_t> output_padding, output_shape;  // output_shape may be empty

  TransposeAttributes(const Node& node, size_t spatial_rank, std::span<const Dim> weight_kernel)
      : window(WindowAttributes::Read(node, spatial_rank, weight_kernel)),
        output_padding(ReadPerAxis(node, "output_padding", spatial_rank, 0, 0)) {
    if (!node.Ints("output_shape").empty()) output_shape = ReadPerAxis(node, "output_shape", spatial_rank, 0, 0);
  }

  bool is_same() const { return window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower; }
};

WindowAxis PlanTransposedAxis(const TransposeAttributes& attributes, size_t i, int64_t input) {
  const WindowAttributes& window = attributes.window;
  Require(input >= 0 && input <= (int64_t{1} << 31), "spatial size ", input, " is out of range");
  WindowAxis axis{.input = input,
                  .kernel = window.kernel[i],
                  .stride = window.strides[i],
                  .dilation = window.dilations[i],
                  .pad_begin = window.pads_begin[i],
                  .pad_end = window.pads_end[i]};
  int64_t full = axis.stride * (input - 1) + attributes.output_padding[i] + window.Extent(i);
  if (attributes.output_shape.empty() && !attributes.is_same()) {
    axis.output = full - axis.pad_begin - axis.pad_end;
    Require(axis.output >= 0, "padding ", axis.pad_begin, " + ", axis.pad_end, " is more than the whole output of ",
            full);
    return axis;
  }
  axis.output = attributes.output_shape.empty() ? input * axis.stride : attributes.output_shape[i];
  int64_t total = std::max<int64_t>(0, full - axis.output);
  axis.pad_begin = window.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
  axis.pad_end = total - axis.pad_begin;
  return axis;
}

Dim InferTransposedAxis(const TransposeAttributes& attributes, size_t i, const Dim& input) {
  if (!attributes.output_shape.empty()) return Dim(attributes.output_shape[i]);
  const WindowAttributes& window = attributes.window;
  if (attributes.is_same()) return input * Dim(window.strides[i]);
  if (window.kernel[i] == 0) return Dim();
  if (input.known()) return Dim(PlanTransposedAxis(attributes, i, *input.value).output);
  int64_t growth = attributes.output_padding[i] + window.Extent(i) - 1 - window.pads_begin[i] - window.pads_end[i];
  return window.strides[i] == 1 && growth == 0 ? input : Dim();
}

}  // namespace

TransposePlan::TransposePlan(const Node& node, const Shape& x, const Shape& w) {
  Require(x.rank() >= 3 && w.rank() == x.rank(), "input ", x, " and weights ", w,
          " must have the same rank, at least 3");
  batch = x[0];
  channels = x[1];
  groups = node.Int("group", 1);
  Require(groups >= 1 && channels % groups == 0 && w[0] == channels, "input ", x, " has ", channels,
          " channels, weights ", w, " have ", w[0], ", in ", groups, " groups");
  group_channels = channels / groups;
  group_features = w[1];
  SymbolicShape kernel = ToSymbolic(Shape(w.dims().subspan(2)));
  TransposeAttributes attributes(node, x.rank() - 2, kernel);
  output = Shape{batch, CheckedProduct(group_features, groups)};
  for (size_t i = 0; i + 2 < x.rank(); ++i) {
    axes.push_back(PlanTransposedAxis(attributes, i, x[i + 2]));
    output.push_back(axes.back().output);
  }
  counts = CountWindow(axes);
  CheckedProduct(group_features, counts.taps);
  output.ElementCount();
}

std::optional<SymbolicShape> InferTransposedConv(const Node& node, const SymbolicShape* x, const SymbolicShape* w) {
  if (!x && !w) return std::nullopt;
  size_t rank = x ? x->size() : w->size();
  Require(rank >= 3, "needs a batch, channels and at least one spatial axis, the shape is ", x ? *x : *w);
  if (x && w) Require(w->size() == rank, "input ", *x, " and weights ", *w, " have different ranks");
  SymbolicShape kernel = w ? SymbolicShape(w->begin() + 2, w->end()) : SymbolicShape(rank - 2);
  TransposeAttributes attributes(node, rank - 2, kernel);
  int64_t groups = node.Int("group", 1);
  Require(groups >= 1, "group must be at least 1, is ", groups);
  SymbolicShape out = {x ? (*x)[0] : Dim(), w ? (*w)[1] * Dim(groups) : Dim()};
  for (size_t i = 0; i < rank - 2; ++i) out.push_back(InferTransposedAxis(attributes, i, x ? (*x)[i + 2] : Dim()));
  return out;
}

}  // namespace ferry
