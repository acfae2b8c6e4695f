// The steps that passes/fold_qdq makes, on the device, and convolutions with the sum behind them.
#include <algorithm>

#include "ops/support/fused.h"
#include "providers/cuda/byte_convolution.h"
#include "providers/cuda/join_byte_sums.h"
#include "providers/cuda/kernels_bytes.h"
#include "providers/cuda/operators.h"
#include "tensor/alignment.h"

namespace ferry::cuda {
namespace {

constexpr size_t kAlignment = 16;

// Kernels read and write 16 bytes at a time; what a caller gave may begin anywhere.
Tensor Aligned(const Device& device, const Tensor& x) {
  if (x.IsAligned(kAlignment)) return x;
  Tensor copy(x.dtype(), x.shape(), device.memory());
  device.memory().CopyInside(copy.address(), x.address(), x.bytes());
  return copy;
}

bool HasTensorCores(const OperatorRequest& request) {
  return !request.settings.device || request.settings.device->facts().compute_major >= 8;
}

// What the tensor cores, or the kernel for single channels, need of a convolution; nothing where it has three axes.
std::optional<ByteWindows> WindowsOf(const NhwcConvPlan& plan) {
  if (plan.axes[0].input != 1 || plan.axes[0].kernel != 1 || plan.axes[0].output != 1) return std::nullopt;
  ByteWindows windows;
  windows.batch = plan.conv.batch, windows.channels = plan.conv.channels, windows.features = plan.conv.features;
  windows.axes[0] = plan.axes[1], windows.axes[1] = plan.axes[2];
  windows.channels_first = plan.channels_first;
  return windows;
}

enum class ByteWay : uint8_t { kTensorCores, kDepthwise, kDirect };

ByteWay WayOf(const NhwcConvPlan& plan, bool last, bool has_cores) {
  const std::optional<ByteWindows> windows = WindowsOf(plan);
  if (!last || !windows || !CanConvolveBytes(*windows)) return ByteWay::kDirect;
  if (plan.conv.groups == 1) return has_cores ? ByteWay::kTensorCores : ByteWay::kDirect;
  const bool single = plan.conv.groups == plan.conv.channels && plan.conv.features == plan.conv.channels;
  return single && !plan.channels_first && plan.conv.channels % 4 == 0 ? ByteWay::kDepthwise : ByteWay::kDirect;
}

DirectBytes DirectOf(const NhwcConvPlan& plan, bool last) {
  const ConvPlan& conv = plan.conv;
  const int64_t inputs = conv.counts.input, outputs = conv.counts.output;
  DirectBytes how{conv.batch * outputs * conv.features,
                  conv.channels,
                  conv.features,
                  conv.group_channels,
                  conv.group_features,
                  inputs,
                  outputs,
                  plan.channels_first ? inputs : 1,
                  plan.channels_first ? 1 : conv.channels,
                  last ? 1 : outputs,
                  last ? conv.features : 1,
                  {}};
  for (size_t i = 0; i < 3; ++i) {
    const WindowAxis& axis = plan.axes[i];
    how.axes[i] = {axis.input, axis.output, axis.kernel, axis.stride, axis.dilation, axis.pad_begin};
  }
  return how;
}

// [channels, 1, taps] to [taps, channels].
Tensor SingleChannels(const Device& device, const Tensor& w) {
  const Tensor readable = Readable(w);
  const int64_t channels = w.dim(0), taps = w.size() / std::max<int64_t>(1, channels);
  Tensor turned(DType::kInt8, {taps, channels});
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t tap = 0; tap < taps; ++tap)
      turned.MutableData<int8_t>()[tap * channels + c] = readable.Data<int8_t>()[c * taps + tap];
  return turned.In(device.memory());
}

ByteOperands OperandsOf(OpContext& context, const Tensor& x, int64_t features) {
  const Tensor& factor = context.Input(2);
  Require(factor.size() == features, "the factors have shape ", factor.shape(), ", there are ", features, " columns");
  ByteOperands operands;
  operands.x = x.address();
  operands.factor = factor.address();
  return operands;
}

void SetBias(const Tensor* bias, int64_t features, ByteOperands& operands) {
  if (!bias) return;
  Require(bias->size() == features, "the bias has shape ", bias->shape(), ", there are ", features, " columns");
  (bias->dtype() == DType::kInt32 ? operands.bias : operands.shift) = bias->address();
}

struct ByteConvolver {
  Node conv;
  bool last = true, has_bias = false;
  Shape weights;
  ByteWay way = ByteWay::kDirect;
  AfterBytes after{QuantizedStep{}};
  DType made = DType::kUInt8;
  int other = -1;  // the input that is added
  std::shared_ptr<const ByteFilter> filter;
  std::shared_ptr<const Tensor> w;

  NhwcConvPlan PlanFor(const Shape& x) const {
    if (last) return PlanNhwcConv(conv, x, weights);
    NhwcConvPlan plan;
    plan.channels_first = true;
    plan.conv = PlanConv(conv, x, weights);
    plan.axes = ThreeAxes(plan.conv.axes);
    plan.output = plan.conv.output;
    return plan;
  }

  void Run(const Device& device, OpContext& context) const {
    const NhwcConvPlan plan = PlanFor(context.Input(0).shape());
    const Tensor x = Aligned(device, context.Input(0));
    ByteOperands operands = OperandsOf(context, x, plan.conv.features);
    SetBias(has_bias ? &context.Input(3) : nullptr, plan.conv.features, operands);
    Tensor added;
    if (other >= 0) {
      const Tensor& given = context.Input(static_cast<size_t>(other));
      Require(given.shape() == plan.output, "a sum of ", plan.output, " and ", given.shape());
      added = Aligned(device, given);
      operands.other = added.address();
    }
    Tensor& y = context.Output(0, made, plan.output);
    if (y.size() == 0) return;
    Tensor whole = y.IsAligned(kAlignment) ? y : Tensor(made, plan.output, device.memory());
    operands.y = whole.address();
    if (way == ByteWay::kTensorCores) {
      operands.filter = filter.get();
      ConvolveBytes(device, *WindowsOf(plan), x.dtype(), after, operands);
    } else if (way == ByteWay::kDepthwise) {
      ConvolveBytesDepthwise(device, *WindowsOf(plan), x.dtype(), after, *w, operands);
    } else {
      ConvolveBytesDirectly(device, DirectOf(plan, last), x.dtype(), after, *w, operands);
    }
    if (whole.address() != y.address()) device.memory().CopyInside(y.address(), whole.address(), y.bytes());
  }
};

const char* NameOf(ByteWay way) {
  return way == ByteWay::kTensorCores ? "tensor cores, int8" : way == ByteWay::kDepthwise ? "depthwise, int8" : "int8";
}

bool HasStepTypes(const OperatorRequest& request, size_t bias) {
  const Tensor* w = request.Constant(1);
  const DType type = request.Has(bias) ? request.TypeOf(bias) : DType::kFloat;
  return IsByte(request.TypeOf(0)) && w && w->dtype() == DType::kInt8 && w->size() > 0 &&
         request.TypeOf(2) == DType::kFloat && (type == DType::kFloat || type == DType::kInt32);
}

// `conv` may be part of a chain, whose inputs begin as its own.
std::optional<ChosenKernel> ChooseConvolution(const OperatorRequest& request, const Node& conv, const Node* add,
                                              size_t other) {
  const std::optional<Shape> x = request.ShapeOf(0);
  ByteConvolver convolver;
  convolver.conv = conv;
  convolver.last = conv.op_type == "QuantizedNhwcConv";
  convolver.has_bias = conv.HasInput(3);
  const Tensor* w = request.Constant(1);
  if (!x || !HasStepTypes(request, convolver.has_bias ? 3 : SIZE_MAX)) return std::nullopt;
  convolver.weights = w->shape();
  const NhwcConvPlan plan = convolver.PlanFor(*x);
  const QuantizedStep step = QuantizedStep::Read(conv);
  convolver.after = AfterBytes(step);
  convolver.made = step.y_type;
  convolver.way = WayOf(plan, convolver.last, HasTensorCores(request));
  if (add) {
    if (convolver.way != ByteWay::kTensorCores || step.is_float()) return std::nullopt;
    convolver.other = static_cast<int>(other);
    convolver.made = QuantizedStep::Read(*add).y_type;
    convolver.after.AddOther(*add, request.TypeOf(other), add->inputs[1] == conv.outputs[0]);
  }
  if (const Device* device = request.settings.device) {
    WeightCache& weights = request.request.weights;
    if (convolver.way == ByteWay::kTensorCores)
      convolver.filter = weights.Get<ByteFilter>(*w, Cat("bytes in cuda", plan.channels_first),
                                                 [&] { return PackByteFilter(*device, *WindowsOf(plan), *w); });
    else if (convolver.way == ByteWay::kDepthwise)
      convolver.w = weights.Get<Tensor>(*w, "single bytes in cuda", [&] { return SingleChannels(*device, *w); });
    else
      convolver.w = weights.Get<Tensor>(*w, "plain bytes in cuda", [&] { return w->In(device->memory()); });
  }
  const char* name = NameOf(convolver.way);
  return OnDevice(
      request, name, [=](const Device& device, OpContext& context) { convolver.Run(device, context); }, InputBit(1),
      InputBit(1));
}

std::optional<ChosenKernel> ChooseByteMatMul(const OperatorRequest& request) {
  const std::optional<Shape> a = request.ShapeOf(0);
  if (!a || a->rank() < 1 || !HasStepTypes(request, 3) || !HasTensorCores(request)) return std::nullopt;
  const Tensor& w = *request.Constant(1);
  const bool turned = request.node().Int("transB", 0) != 0;
  if (w.rank() != 2 || a->back() != w.dim(turned ? 1 : 0) || a->ElementCount() == 0) return std::nullopt;
  const QuantizedStep step = QuantizedStep::Read(request.node());
  ByteWindows windows;
  windows.batch = a->ElementCount() / a->back(), windows.channels = a->back(), windows.features = w.dim(turned ? 0 : 1);
  for (WindowAxis& axis : windows.axes) axis.input = axis.output = 1;
  if (!CanConvolveBytes(windows)) return std::nullopt;
  std::shared_ptr<const ByteFilter> filter;
  if (const Device* device = request.settings.device)
    filter = request.request.weights.Get<ByteFilter>(w, Cat("byte matrix in cuda", turned),
                                                     [&] { return PackByteMatrix(*device, w, turned); });
  auto run = [=](const Device& device, OpContext& context) {
    const Tensor x = Aligned(device, context.Input(0));
    ByteWindows rows = windows;
    Require(x.rank() >= 1 && x.shape().back() == windows.channels, "a has shape ", x.shape(), ", the matrix ",
            windows.channels, " rows");
    Shape shape = x.shape();
    shape.back() = windows.features;
    Tensor& y = context.Output(0, step.y_type, shape);
    if (y.size() == 0) return;
    rows.batch = y.size() / windows.features;
    ByteOperands operands = OperandsOf(context, x, windows.features);
    SetBias(context.OptionalInput(3), windows.features, operands);
    operands.filter = filter.get();
    Tensor whole = y.IsAligned(kAlignment) ? y : Tensor(step.y_type, shape, device.memory());
    operands.y = whole.address();
    ConvolveBytes(device, rows, x.dtype(), AfterBytes(step), operands);
    if (whole.address() != y.address()) device.memory().CopyInside(y.address(), whole.address(), y.bytes());
  };
  return OnDevice(request, "tensor cores, int8", run, InputBit(1), InputBit(1));
}

void RunAdd(const Device& device, OpContext& context) {
  const Tensor &a = context.Input(0), &b = context.Input(1);
  const QuantizedStep step = QuantizedStep::Read(context.node());
  Require(a.shape() == b.shape(), "shapes ", a.shape(), " and ", b.shape(), " differ");
  Tensor& y = context.Output(0, step.y_type, a.shape());
  if (y.size() > 0) AddBytes(device, ReadByteSum(context.node()), a, b, y);
}

void RunLookup(const Device& device, OpContext& context) {
  const Tensor &x = context.Input(0), &table = context.Input(1);
  Require(table.size() == 256, "the table has ", table.size(), " entries, not 256");
  Tensor& y = context.Output(0, table.dtype(), x.shape());
  if (y.size() > 0) LookUpBytes(device, x, table, y);
}

void RunMean(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  const Node& node = context.node();
  const QuantizedStep step = QuantizedStep::Read(node);
  Require(x.rank() >= 3 && IsByte(step.y_type), "the mean is of an image of bytes");
  const bool last = node.Int("channels_last", 0) != 0;
  const int64_t channels = last ? x.shape().back() : x.dim(1);
  const int64_t pixels = x.shape().CountBetween(last ? 1 : 2, last ? x.rank() - 1 : x.rank());
  Require(pixels < (int64_t{1} << 23), "the mean of ", pixels, " pixels is not made of bytes");
  Shape shape = {x.dim(0)};
  if (!last) shape.push_back(channels);
  if (node.Int("keepdims", 1) != 0)
    for (size_t axis = 2; axis < x.rank(); ++axis) shape.push_back(1);
  if (last) shape.push_back(channels);
  Tensor& y = context.Output(0, step.y_type, shape);
  if (y.size() == 0) return;
  const float factor = node.Float("factor", 1.0f) / static_cast<float>(std::max<int64_t>(pixels, 1));
  AverageBytes(device, {y.size(), channels, pixels, last ? 1 : pixels, last ? channels : 1, factor}, x.dtype(),
               AfterBytes(step), x.address(), y.address());
}

}  // namespace

bool IsTakenWithSum(const Node& conv, const Shape& x, const Tensor& w) {
  const NhwcConvPlan plan = PlanNhwcConv(conv, x, w.shape());
  return WayOf(plan, true, true) == ByteWay::kTensorCores && !QuantizedStep::Read(conv).is_float();
}

std::optional<ChosenKernel> ChooseByteStep(const OperatorRequest& request) {
  const Node& node = request.node();
  if (request.IsInternal("ElementwiseChain")) {
    const Graph* body = BodyWithSum(node);
    if (!body) return std::nullopt;
    const Node &conv = body->nodes[0], &add = body->nodes[1];
    const std::string& other = add.inputs[add.inputs[0] == conv.outputs[0] ? 1 : 0];
    const auto place = std::find(node.inputs.begin(), node.inputs.end(), other) - node.inputs.begin();
    return ChooseConvolution(request, conv, &add, static_cast<size_t>(place));
  }
  if (request.IsInternal("QuantizedConv") || request.IsInternal("QuantizedNhwcConv"))
    return ChooseConvolution(request, node, nullptr, 0);
  if (request.IsInternal("QuantizedMatMul")) return ChooseByteMatMul(request);
  if (!IsByte(request.TypeOf(0))) return std::nullopt;
  if (request.IsInternal("QuantizedAdd") && IsByte(request.TypeOf(1))) return OnDevice(request, "int8", RunAdd);
  if (request.IsInternal("QuantizedLookup")) return OnDevice(request, "table", RunLookup);
  if (request.IsInternal("QuantizedMean")) return OnDevice(request, "int8", RunMean);
  return std::nullopt;
}

}  // namespace ferry::cuda
