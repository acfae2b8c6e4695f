#include "ops/support/window.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/shape.h"

namespace ferry {
namespace {

// Keeps every sum and product of attributes and sizes far from overflow.
constexpr int64_t kLargestAttribute = int64_t{1} << 30;
constexpr int64_t kLargestInput = int64_t{1} << 46;

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t CeilDiv(int64_t a, int64_t b) { return -FloorDiv(-a, b); }

WindowAxis PlanAxis(const WindowAttributes& window, size_t i, int64_t input) {
  Require(input >= 0 && input <= kLargestInput, "spatial size ", input, " is out of range");
  WindowAxis axis{.input = input,
                  .kernel = window.kernel[i],
                  .stride = window.strides[i],
                  .dilation = window.dilations[i],
                  .pad_begin = window.pads_begin[i],
                  .pad_end = window.pads_end[i]};
  int64_t extent = window.Extent(i);
  if (window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower) {
    axis.output = CeilDiv(input, axis.stride);
    int64_t total = std::max<int64_t>(0, (axis.output - 1) * axis.stride + extent - input);
    int64_t less = total / 2, more = total - less;
    axis.pad_begin = window.auto_pad == AutoPad::kSameUpper ? less : more;
    axis.pad_end = total - axis.pad_begin;
    return axis;
  }
  int64_t room = input + axis.pad_begin + axis.pad_end - extent;
  if (window.ceil_mode) {
    axis.output = CeilDiv(room, axis.stride) + 1;
    // A window that would start in the padding at the end is not counted.
    if ((axis.output - 1) * axis.stride >= input + axis.pad_begin) --axis.output;
  } else {
    axis.output = FloorDiv(room, axis.stride) + 1;
  }
  Require(axis.output >= 0, "a window of ", extent, " does not fit an input of ", input, " with padding ",
          axis.pad_begin, " + ", axis.pad_end);
  return axis;
}

}  // namespace

AutoPad ReadAutoPad(const Node& node) {
  std::string text = node.String("auto_pad", "NOTSET");
  if (text == "SAME_UPPER") return AutoPad::kSameUpper;
  if (text == "SAME_LOWER") return AutoPad::kSameLower;
  if (text == "VALID") return AutoPad::kValid;
  Require(text == "NOTSET" || text.empty(), "auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, is '",
          Printable(text), "'");
  return AutoPad::kNotSet;
}

std::vector<int64_t> ReadPerAxis(const Node& node, std::string_view name, size_t count, int64_t otherwise,
                                 int64_t least) {
  std::vector<int64_t> values = node.Ints(name);
  if (values.empty()) return std::vector<int64_t>(count, otherwise);
  Require(values.size() == count, name, " has ", values.size(), " values, ", count, " are needed");
  for (int64_t value : values)
    Require(value >= least && value <= kLargestAttribute, name, " has the value ", value, ", allowed are ", least,
            " to ", kLargestAttribute);
  return values;
}

WindowAttributes WindowAttributes::Read(const Node& node, size_t spatial_rank, std::span<const Dim> weight_kernel) {
  WindowAttributes window;
  window.auto_pad = ReadAutoPad(node);
  window.ceil_mode = node.Int("ceil_mode", 0) != 0;
  window.strides = ReadPerAxis(node, "strides", spatial_rank, 1, 1);
  window.dilations = ReadPerAxis(node, "dilations", spatial_rank, 1, 1);
  window.kernel = ReadPerAxis(node, "kernel_shape", spatial_rank, 0, 1);
  bool has_kernel = !node.Ints("kernel_shape").empty();
  Require(has_kernel || !weight_kernel.empty() || spatial_rank == 0, "kernel_shape is missing");
  for (size_t i = 0; i < weight_kernel.size() && i < spatial_rank; ++i) {
    if (!weight_kernel[i].known()) continue;
    int64_t size = *weight_kernel[i].value;
    Require(size >= 1 && size <= kLargestAttribute, "the weights have a kernel of size ", size, " along spatial axis ",
            i);
    Require(!has_kernel || window.kernel[i] == size, "kernel_shape says ", window.kernel[i], " along spatial axis ", i,
            ", the weights have ", size);
    window.kernel[i] = size;
  }
  std::vector<int64_t> pads = ReadPerAxis(node, "pads", 2 * spatial_rank, 0, 0);
  // auto_pad speaks for itself: explicit pads beside it have no say.
  if (window.auto_pad != AutoPad::kNotSet) pads.assign(2 * spatial_rank, 0);
  auto middle = pads.begin() + static_cast<ptrdiff_t>(spatial_rank);
  window.pads_begin.assign(pads.begin(), middle);
  window.pads_end.assign(middle, pads.end());
  return window;
}

std::vector<WindowAxis> PlanWindow(const WindowAttributes& window, std::span<const int64_t> input) {
  std::vector<WindowAxis> axes;
  for (size_t i = 0; i < input.size(); ++i) axes.push_back(PlanAxis(window, i, input[i]));
  return axes;
}

Dim InferWindow(const WindowAttributes& window, size_t i, const Dim& input) {
  bool same = window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower;
  if (window.kernel[i] == 0 && !(same && input.known())) return same && window.strides[i] == 1 ? input : Dim();
  if (input.known()) {
    WindowAttributes known = window;
    known.kernel[i] = std::max<int64_t>(known.kernel[i], 1);
    return Dim(PlanAxis(known, i, *input.value).output);
  }
  if (window.strides[i] != 1) return Dim();
  bool keeps_size = same || window.pads_begin[i] + window.pads_end[i] == window.Extent(i) - 1;
  return keeps_size ? input : Dim();
}

WindowCounts CountWindow(std::span<const WindowAxis> axes) {
  WindowCounts counts;
  for (const WindowAxis& axis : axes) {
    counts.input = CheckedProduct(counts.input, axis.input);
    counts.output = CheckedProduct(counts.output, axis.output);
    counts.taps = CheckedProduct(counts.taps, axis.kernel);
  }
  return counts;
}

OutputRange ValidOutputs(const WindowAxis& axis, int64_t tap) {
  int64_t first = axis.Position(0, tap);
  int64_t begin = first >= 0 ? 0 : CeilDiv(-first, axis.stride);
  int64_t end = first >= axis.input ? 0 : (axis.input - 1 - first) / axis.stride + 1;
  begin = std::min(begin, axis.output);
  return {begin, std::clamp(end, begin, axis.output)};
}

}  // namespace ferry
