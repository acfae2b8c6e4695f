// Pooling, ordinary and adaptive.
#include <algorithm>

#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

// A pooling window along the spatial axes, as PyTorch describes it.
struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceil = false;
  size_t axes() const { return kernel.size(); }
};

// Arguments from index 1 on: kernel, stride, padding; dilation where given.
Window ReadWindow(Call& c, size_t axes, size_t dilation_at, size_t ceil_at) {
  Window window{.kernel = c.IntsOf(1, axes, 1)};
  window.stride = c.Ints(2).empty() ? window.kernel : c.IntsOf(2, axes, 1);
  window.padding = c.IntsOf(3, axes, 0);
  window.dilation = dilation_at ? c.IntsOf(dilation_at, axes, 1) : std::vector<int64_t>(axes, 1);
  window.ceil = c.Bool(ceil_at);
  return window;
}

struct Pads {
  std::vector<int64_t> all;      // begins, then ends
  bool needs_ceil_mode = false;  // some sizes are open: ONNX's own rounding has to do
  std::vector<int64_t> extra;    // of the ends, beyond the padding that was asked for
};

// Rounding up, as PyTorch does it: the last window may reach over the end, but not begin behind it. With sizes known
// that is padding at the end, which leaves nothing to how a runtime reads ceil_mode.
Pads PadsFor(const Window& window, const Operand& x) {
  size_t axes = window.axes();
  Pads pads{.all = window.padding, .extra = std::vector<int64_t>(axes)};
  pads.all.insert(pads.all.end(), window.padding.begin(), window.padding.end());
  auto size_of = [&](size_t i) { return x.dim(static_cast<int64_t>(x.rank() - axes + i)); };
  for (size_t i = 0; window.ceil && i < axes; ++i) pads.needs_ceil_mode = pads.needs_ceil_mode || !size_of(i).known();
  for (size_t i = 0; window.ceil && !pads.needs_ceil_mode && i < axes; ++i) {
    Dim size = size_of(i);
    int64_t reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
    int64_t room = *size.value + 2 * window.padding[i] - reach;
    int64_t count = (room + window.stride[i] - 1) / window.stride[i] + 1;
    if ((count - 1) * window.stride[i] >= *size.value + window.padding[i]) --count;
    pads.extra[i] = std::max<int64_t>(0, (count - 1) * window.stride[i] - room);
    pads.all[axes + i] += pads.extra[i];
  }
  return pads;
}

Attributes WindowAttributes(const Window& window, const Pads& pads) {
  Attributes attributes = {{"kernel_shape", window.kernel}, {"strides", window.stride}, {"pads", pads.all}};
  bool dilated = std::any_of(window.dilation.begin(), window.dilation.end(), [](int64_t d) { return d != 1; });
  if (dilated) attributes.push_back({"dilations", window.dilation});
  if (pads.needs_ceil_mode) attributes.push_back({"ceil_mode", int64_t{1}});
  return attributes;
}

// Inputs without a batch dimension get one for the while.
template <class Pool>
Operands WithBatch(Call& c, size_t axes, const Pool& pool) {
  Operand x = c.Tensor(0);
  bool unbatched = x.rank() == axes + 1;
  Operands results = pool(unbatched ? c.b.Unsqueeze(x, {0}) : x);
  if (unbatched)
    for (Operand& result : results) result = c.b.Squeeze(result, {0});
  return results;
}

size_t AxesOf(Call& c) {
  size_t digit = c.op_name().find_first_of("123");
  return static_cast<size_t>(c.op_name().at(digit) - '0');
}

// How many elements one channel of one image has.
Operand PlaneSize(Builder& b, const Operand& x, size_t axes) {
  Operand size = b.Int(1);
  for (size_t i = 0; i < axes; ++i) size = b.Mul(size, b.AsRank0(b.SizeOf(x, -1 - static_cast<int64_t>(i))));
  return size;
}

Operands MaxPoolOf(Call& c, const Operand& x, const Window& window, bool indices) {
  Attributes attributes = WindowAttributes(window, PadsFor(window, x));
  bool direct = c.b.Takes("MaxPool", x.dtype());
  Operand pooled_input = direct ? x : c.b.Cast(x, DType::kDouble);
  Operands out = c.b.EmitMany("MaxPool", {pooled_input}, attributes, indices ? 2 : 1);
  out[0] = c.b.CastLike(out[0], x);
  // ONNX counts from the beginning of the tensor, PyTorch from the beginning of the plane.
  if (indices) out[1] = c.b.Emit("Mod", {out[1], PlaneSize(c.b, x, window.axes())});
  return out;
}
Result MaxPool(Call& c) {
  size_t axes = AxesOf(c);
  bool indices = c.op_name().ends_with("_with_indices");
  Window window = ReadWindow(c, axes, 4, 5);
  return WithBatch(c, axes, [&](const Operand& x) { return MaxPoolOf(c, x, window, indices); });
}

// How many elements a window of PyTorch's average counts along one axis.
std::vector<int64_t> WindowCounts(const Window& window, size_t axis, int64_t size, int64_t windows,
                                  bool count_padding) {
  RequireFewPositions(static_cast<double>(windows));
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < windows; ++i) {
    int64_t begin = i * window.stride[axis] - window.padding[axis];
    int64_t end = std::min(begin + window.kernel[axis], size + window.padding[axis]);
    if (!count_padding) {
      begin = std::max<int64_t>(begin, 0);
      end = std::min(end, size);
    }
    counts.push_back(end - begin);
  }
  return counts;
}

// The average of whole windows, corrected by how many elements PyTorch counts in each.
Operand CorrectedAverage(Call& c, const Operand& x, const Window& window, const Pads& pads, bool count_padding) {
  Attributes attributes = WindowAttributes(window, pads);
  attributes.push_back({"count_include_pad", int64_t{1}});
  Operand y = c.b.Widened("AveragePool", {x}, attributes);
  for (size_t axis = 0; axis < window.axes(); ++axis) {
    auto at = static_cast<int64_t>(x.rank() - window.axes() + axis);
    std::vector<int64_t> counts = WindowCounts(window, axis, *x.dim(at).value, *y.dim(at).value, count_padding);
    if (std::all_of(counts.begin(), counts.end(), [&](int64_t n) { return n == window.kernel[axis]; })) continue;
    std::vector<double> factors;
    for (int64_t count : counts)
      factors.push_back(static_cast<double>(window.kernel[axis]) / static_cast<double>(count));
    std::vector<int64_t> shape(window.axes() - axis, 1);
    shape[0] = static_cast<int64_t>(factors.size());
    y = c.b.Mul(y, c.b.CastLike(c.b.Constant(Tensor::FromVector<double>(factors, Shape(shape))), y));
  }
  return y;
}

Operand AveragePoolOf(Call& c, const Operand& x, const Window& window, bool count_padding,
                      std::optional<int64_t> divisor) {
  Pads pads = PadsFor(window, x);
  bool extra = std::any_of(pads.extra.begin(), pads.extra.end(), [](int64_t n) { return n != 0; });
  Attributes attributes = WindowAttributes(window, pads);
  if (divisor) {
    // ONNX divides the windows at the end by fewer elements, and says nowhere by how many.
    if (pads.needs_ceil_mode)
      c.Unsupported("divisor_override with ceil_mode needs spatial sizes that are known at export");
    attributes.push_back({"count_include_pad", int64_t{1}});
    double elements = 1;
    for (int64_t size : window.kernel) elements *= static_cast<double>(size);
    return c.b.Mul(c.b.Widened("AveragePool", {x}, attributes), elements / static_cast<double>(*divisor));
  }
  if (extra) return CorrectedAverage(c, x, window, pads, count_padding);
  attributes.push_back({"count_include_pad", int64_t{count_padding}});
  return c.b.Widened("AveragePool", {x}, attributes);
}
Result AvgPool(Call& c) {
  size_t axes = AxesOf(c);
  Window window = ReadWindow(c, axes, 0, 4);
  std::optional<int64_t> divisor;
  if (axes > 1 && !c.IsNone(6)) divisor = c.Int(6);
  return WithBatch(c, axes,
                   [&](const Operand& x) { return Operands{AveragePoolOf(c, x, window, c.Bool(5), divisor)}; });
}

// Window i of an adaptive pool over `size` elements.
struct Stretch {
  int64_t begin, end;
};
Stretch AdaptiveStretch(int64_t i, int64_t size, int64_t count) {
  return {i * size / count, ((i + 1) * size + count - 1) / count};
}

// Means along one axis as a product with a matrix of weights.
Operand AverageAlong(Call& c, const Operand& x, int64_t axis, int64_t size, int64_t count) {
  RequireFewPositions(static_cast<double>(size) * static_cast<double>(count));
  std::vector<double> weights(static_cast<size_t>(size * count));
  for (int64_t i = 0; i < count; ++i) {
    Stretch s = AdaptiveStretch(i, size, count);
    for (int64_t j = s.begin; j < s.end; ++j)
      weights[static_cast<size_t>(j * count + i)] = 1 / static_cast<double>(s.end - s.begin);
  }
  Operand matrix = c.b.CastLike(c.b.Constant(Tensor::FromVector<double>(weights, {size, count})), x);
  return c.b.SwapAxes(c.b.MatMul(c.b.SwapAxes(x, axis, -1), matrix), axis, -1);
}

// None keeps the size of an axis.
std::vector<int64_t> AdaptiveCounts(Call& c, const Operand& x, size_t axes) {
  std::vector<int64_t> counts;
  const Arg::List* list = c.arg(1).get<Arg::List>();
  for (size_t i = 0; i < axes; ++i) {
    const Arg& arg = list ? list->at(list->size() == 1 ? 0 : i) : c.arg(1);
    if (const Scalar* number = arg.get<Scalar>()) {
      counts.push_back(number->AsInt());
    } else {
      Dim size = x.dim(static_cast<int64_t>(x.rank() - axes + i));
      if (!size.known()) c.Unsupported("the size of an axis that is kept is not known");
      counts.push_back(*size.value);
    }
  }
  return counts;
}

// The sizes that an adaptive pool starts from.
std::vector<int64_t> AdaptiveSizes(Call& c, const Operand& x, const std::vector<int64_t>& counts) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < counts.size(); ++i) {
    Dim size = x.dim(static_cast<int64_t>(x.rank() - counts.size() + i));
    if (!size.known()) c.Unsupported("an adaptive pool to size ", counts[i], " needs to know the size it starts from");
    if (*size.value < 1 || counts[i] < 0)
      c.Unsupported("there is no adaptive pool from size ", *size.value, " to size ", counts[i]);
    sizes.push_back(*size.value);
  }
  return sizes;
}

Operand AdaptiveAverageOf(Call& c, const Operand& x, size_t axes) {
  std::vector<int64_t> counts = AdaptiveCounts(c, x, axes), kernel;
  if (std::all_of(counts.begin(), counts.end(), [](int64_t n) { return n == 1; }) && x.rank() == axes + 2)
    return c.b.Widened("GlobalAveragePool", {x});
  std::vector<int64_t> sizes = AdaptiveSizes(c, x, counts);
  bool even = true;
  for (size_t i = 0; i < axes; ++i) {
    even = even && counts[i] > 0 && sizes[i] % counts[i] == 0;
    kernel.push_back(even ? sizes[i] / counts[i] : 0);
  }
  if (even) return c.b.Widened("AveragePool", {x}, {{"kernel_shape", kernel}, {"strides", kernel}});
  Operand y = x;
  for (size_t i = 0; i < axes; ++i) {
    auto axis = static_cast<int64_t>(x.rank() - axes + i);
    if (counts[i] != sizes[i]) y = AverageAlong(c, y, axis, sizes[i], counts[i]);
  }
  return y;
}
Result AdaptiveAvgPool(Call& c) {
  size_t axes = AxesOf(c);
  return WithBatch(c, axes, [&](const Operand& x) { return Operands{AdaptiveAverageOf(c, x, axes)}; });
}

// For every window the positions it covers in the plane; short windows repeat their first.
std::vector<std::vector<int64_t>> AdaptiveWindows(const std::vector<int64_t>& sizes,
                                                  const std::vector<int64_t>& counts) {
  std::vector<std::vector<int64_t>> windows = {{0}};
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    std::vector<std::vector<int64_t>> finer;
    for (const std::vector<int64_t>& window : windows)
      for (int64_t i = 0; i < counts[axis]; ++i) {
        Stretch s = AdaptiveStretch(i, sizes[axis], counts[axis]);
        finer.emplace_back();
        for (int64_t position : window)
          for (int64_t j = s.begin; j < s.end; ++j) finer.back().push_back(position * sizes[axis] + j);
      }
    windows = std::move(finer);
  }
  size_t longest = 1;
  for (const auto& window : windows) longest = std::max(longest, window.size());
  for (auto& window : windows) window.resize(longest, window[0]);
  return windows;
}

Operands AdaptiveMaxOf(Call& c, const Operand& x, size_t axes) {
  Builder& b = c.b;
  std::vector<int64_t> counts = AdaptiveCounts(c, x, axes), sizes = AdaptiveSizes(c, x, counts), table;
  double covered = 1;
  for (size_t i = 0; i < axes; ++i) covered *= static_cast<double>(sizes[i]) + static_cast<double>(counts[i]);
  RequireFewPositions(covered);
  std::vector<std::vector<int64_t>> windows = AdaptiveWindows(sizes, counts);
  auto count = static_cast<int64_t>(windows.size()),
       length = static_cast<int64_t>(windows.empty() ? 1 : windows[0].size());
  for (const auto& window : windows) table.insert(table.end(), window.begin(), window.end());
  Operand positions = b.Constant(Tensor::FromVector<int64_t>(table, {count, length}));
  std::vector<Scalar> flat = {b.SizeScalar(x, 0), b.SizeScalar(x, 1), Scalar(-1)}, shape = {flat[0], flat[1]};
  for (int64_t n : counts) shape.push_back(Scalar(n));
  Operand gathered = b.Gather(b.View(x, flat), positions, 2);
  Operand values = b.View(b.Reduce("ReduceMax", gathered, {3}, false), shape);
  // Where in its window each maximum is, then which position of the plane that was.
  Operand best = b.Emit("ArgMax", {gathered}, {{"axis", int64_t{3}}, {"keepdims", int64_t{0}}});
  Operand rows = b.Mul(b.Range(b.Int(0), b.Int(count), b.Int(1)), b.Int(length));
  Operand indices = b.Gather(b.Reshape(positions, {-1}), b.Add(best, rows), 0);
  return {values, b.View(indices, shape)};
}
Result AdaptiveMaxPool(Call& c) {
  size_t axes = AxesOf(c);
  return WithBatch(c, axes, [&](const Operand& x) { return AdaptiveMaxOf(c, x, axes); });
}

// Values go where their maxima were; positions count within all spatial axes of one channel.
Operand Unpooled(Call& c, const Operand& values, const Operand& positions, const std::vector<Scalar>& spatial,
                 const char* reduction) {
  Builder& b = c.b;
  std::vector<Scalar> sizes = b.Sizes(values);
  sizes.resize(sizes.size() - spatial.size());
  auto rows = [&](const Operand& x) {
    std::vector<Scalar> flat = sizes;
    flat.push_back(Scalar(-1));
    return b.View(x, flat);
  };
  std::vector<Scalar> full = sizes;
  full.insert(full.end(), spatial.begin(), spatial.end());
  Operand empty = rows(b.Fill(0, values.dtype(), b.ShapeVector(full)));
  Attributes attributes = {{"axis", static_cast<int64_t>(sizes.size())}};
  if (std::string_view(reduction) != "none") attributes.push_back({"reduction", std::string(reduction)});
  return b.View(b.Emit("ScatterElements", {empty, rows(positions), rows(values)}, attributes), full);
}
Result MaxUnpool(Call& c) { return Unpooled(c, c.Tensor(0), c.Tensor(1), c.Numbers(2), "none"); }
// A maximum of several windows collects what all of them send back.
Result MaxPoolBackward(Call& c) {
  Operand x = c.Tensor(1);
  size_t axes = c.op_name() == "max_pool3d_with_indices_backward" ? 3 : 2;
  std::vector<Scalar> sizes = c.b.Sizes(x);
  std::vector<Scalar> spatial(sizes.end() - static_cast<ptrdiff_t>(axes), sizes.end());
  return Unpooled(c, c.Tensor(0), c.Tensor(7), spatial, "add");
}

constexpr Rule kRules[] = {
    {"max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size)", MaxUnpool},
    {"max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding)", MaxUnpool},
    {"max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
     "int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices)",
     MaxPoolBackward},
    {"max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, "
     "int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices)",
     MaxPoolBackward},
    {"max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool "
     "ceil_mode=False)",
     MaxPool},
    {"max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool "
     "ceil_mode=False)",
     MaxPool},
    {"max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool "
     "ceil_mode=False)",
     MaxPool},
    {"max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, "
     "bool ceil_mode=False)",
     MaxPool},
    {"max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, "
     "bool ceil_mode=False)",
     MaxPool},
    {"max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, "
     "bool ceil_mode=False)",
     MaxPool},
    {"avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False, bool "
     "count_include_pad=True)",
     AvgPool},
    {"avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool "
     "count_include_pad=True, int? divisor_override=None)",
     AvgPool},
    {"avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool "
     "count_include_pad=True, int? divisor_override=None)",
     AvgPool},
    {"adaptive_avg_pool1d(Tensor self, int[1] output_size)", AdaptiveAvgPool},
    {"adaptive_avg_pool2d(Tensor self, SymInt[2] output_size)", AdaptiveAvgPool},
    {"adaptive_avg_pool3d(Tensor self, SymInt[3] output_size)", AdaptiveAvgPool},
    {"_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size)", AdaptiveAvgPool},
    {"_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size)", AdaptiveAvgPool},
    {"adaptive_max_pool1d(Tensor self, int[1] output_size)", AdaptiveMaxPool},
    {"adaptive_max_pool2d(Tensor self, int[2] output_size)", AdaptiveMaxPool},
    {"adaptive_max_pool3d(Tensor self, int[3] output_size)", AdaptiveMaxPool},
};

}  // namespace

std::span<const Rule> PoolingRules() { return kRules; }

}  // namespace ferry::torch
