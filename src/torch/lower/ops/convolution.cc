// Convolutions of every kind.
#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

struct Window {
  std::vector<int64_t> stride, pads, dilation, output_padding;  // pads: all begins, then all ends
  int64_t groups = 1;
  bool transposed = false;
};

std::vector<int64_t> Symmetric(std::vector<int64_t> padding) {
  size_t axes = padding.size();
  padding.resize(2 * axes);
  for (size_t i = 0; i < axes; ++i) padding[axes + i] = padding[i];
  return padding;
}

// Inputs without a batch dimension get one for the while.
Result Convolve(Call& c, const Window& window) {
  Operand x = c.Tensor(0), weight = c.Tensor(1), bias = c.MaybeTensor(2);
  bool unbatched = x.rank() + 1 == weight.rank();
  if (unbatched) x = c.b.Unsqueeze(x, {0});
  Attributes attributes = {
      {"strides", window.stride}, {"pads", window.pads}, {"dilations", window.dilation}, {"group", window.groups}};
  std::vector<int64_t> kernel;
  for (size_t axis = 2; axis < weight.rank(); ++axis)
    if (Dim size = weight.dim(static_cast<int64_t>(axis)); size.known()) kernel.push_back(*size.value);
  if (kernel.size() + 2 == weight.rank()) attributes.push_back({"kernel_shape", kernel});
  bool pads_output = false;
  for (int64_t amount : window.output_padding) pads_output = pads_output || amount != 0;
  if (pads_output) attributes.push_back({"output_padding", window.output_padding});
  Operand y = c.b.Widened(window.transposed ? "ConvTranspose" : "Conv",
                          bias ? Operands{x, weight, bias} : Operands{x, weight}, attributes);
  return unbatched ? c.b.Squeeze(y, {0}) : y;
}

size_t SpatialAxes(Call& c) { return c.Tensor(1).rank() - 2; }

Result Conv(Call& c) {
  size_t axes = SpatialAxes(c);
  return Convolve(c, {.stride = c.IntsOf(3, axes, 1),
                      .pads = Symmetric(c.IntsOf(4, axes, 0)),
                      .dilation = c.IntsOf(5, axes, 1),
                      .groups = c.Int(6)});
}

// "same": what is odd goes to the end.
Result ConvNamedPadding(Call& c) {
  size_t axes = SpatialAxes(c);
  Window window{.stride = c.IntsOf(3, axes, 1),
                .pads = std::vector<int64_t>(2 * axes),
                .dilation = c.IntsOf(5, axes, 1),
                .groups = c.Int(6)};
  if (c.Text(4) == "same") {
    for (size_t i = 0; i < axes; ++i) {
      Dim size = c.Tensor(1).dim(static_cast<int64_t>(i) + 2);
      if (!size.known()) c.Unsupported("the size of the kernel is not known");
      int64_t total = window.dilation[i] * (*size.value - 1);
      window.pads[i] = total / 2;
      window.pads[axes + i] = total - total / 2;
    }
  } else if (c.Text(4) != "valid") {
    c.Unsupported("padding '", c.Text(4), "' is unknown");
  }
  return Convolve(c, window);
}

Result ConvTranspose(Call& c) {
  size_t axes = SpatialAxes(c);
  return Convolve(c, {.stride = c.IntsOf(3, axes, 1),
                      .pads = Symmetric(c.IntsOf(4, axes, 0)),
                      .dilation = c.IntsOf(7, axes, 1),
                      .output_padding = c.IntsOf(5, axes, 0),
                      .groups = c.Int(6),
                      .transposed = true});
}

Result Convolution(Call& c) {
  size_t axes = SpatialAxes(c);
  return Convolve(c, {.stride = c.IntsOf(3, axes, 1),
                      .pads = Symmetric(c.IntsOf(4, axes, 0)),
                      .dilation = c.IntsOf(5, axes, 1),
                      .output_padding = c.IntsOf(7, axes, 0),
                      .groups = c.Int(8),
                      .transposed = c.Bool(6)});
}

constexpr Rule kRules[] = {
    {"conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] dilation=1, int "
     "groups=1)",
     Conv},
    {"conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1, int "
     "groups=1)",
     Conv},
    {"conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, int[3] dilation=1, int "
     "groups=1)",
     Conv},
    {"conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str padding=\"valid\", int[1] "
     "dilation=1, int groups=1)",
     ConvNamedPadding},
    {"conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, str padding=\"valid\", int[2] "
     "dilation=1, int groups=1)",
     ConvNamedPadding},
    {"conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, str padding=\"valid\", int[3] "
     "dilation=1, int groups=1)",
     ConvNamedPadding},
    {"_convolution_mode(Tensor input, Tensor weight, Tensor? bias, int[] stride, str padding, int[] dilation, int "
     "groups)",
     ConvNamedPadding},
    {"conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] "
     "output_padding=0, int groups=1, int[1] dilation=1)",
     ConvTranspose},
    {"conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] "
     "output_padding=0, int groups=1, int[2] dilation=1)",
     ConvTranspose},
    {"conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, int[3] "
     "output_padding=0, int groups=1, int[3] dilation=1)",
     ConvTranspose},
    {"convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool "
     "transposed, int[] output_padding, int groups)",
     Convolution},
    {"_convolution.default,deprecated(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
     "dilation, bool transposed, int[] output_padding, int groups, bool benchmark=False, bool deterministic=False, "
     "bool cudnn_enabled=True, bool allow_tf32=True)",
     Convolution},
};

}  // namespace

std::span<const Rule> ConvolutionRules() { return kRules; }

}  // namespace ferry::torch
