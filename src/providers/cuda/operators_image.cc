#include <utility>

#include "ops/support/fused.h"
#include "ops/support/nhwc.h"
#include "providers/cuda/convolution.h"
#include "providers/cuda/convolution_graph.h"
#include "providers/cuda/depthwise.h"
#include "providers/cuda/grouped.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/operators.h"
#include "providers/cuda/patches.h"
#include "providers/cuda/product.h"

namespace ferry::cuda {
namespace {

const std::byte* AddressOf(const Tensor* tensor) { return tensor ? tensor->address() : nullptr; }

// [M, C, H, W] to [M, H, W, C], as cuDNN wants filters of channels-last images; [C, 1, H, W] to [H, W, C] for one
// channel to one.
Tensor TurnedFilter(const Device& device, const Tensor& w, bool depthwise) {
  Tensor there = w.In(device.memory());
  const int64_t features = w.dim(0), channels = w.dim(1), taps = w.size() / std::max<int64_t>(1, features * channels);
  Tensor turned(w.dtype(), {features, taps, channels}, device.memory());
  const Walk plain{{features, taps, channels}, {channels * taps, 1, taps}, {taps * channels, channels, 1}};
  CopyWalk(device, depthwise ? Walk{{taps, features}, {1, taps}, {features, 1}} : plain,
           static_cast<size_t>(BitWidth(w.dtype())) / 8, there.address(), turned.address());
  device.Synchronize();  // `there` ends here, and other threads will read
  return turned;
}

// activation(x · factor + offset), where there are a factor and an offset.
Chain AffineOf(DType type, bool has_factor, bool has_offset, const Activation& activation) {
  Chain chain;
  Node multiply, add;
  multiply.op_type = "Mul", add.op_type = "Add";
  int value = chain.AddInput(type);
  if (has_factor) value = *chain.AddStep(multiply, std::vector{value, chain.AddInput(type)}, type);
  if (has_offset) value = *chain.AddStep(add, std::vector{value, chain.AddInput(type)}, type);
  chain.AddOutput(AddActivation(chain, value, activation));
  return chain;
}

void RunAffine(const Device& device, const Chain& chain, std::initializer_list<const Tensor*> inputs, Tensor& y) {
  std::vector<const Tensor*> there;
  for (const Tensor* input : inputs)
    if (input) there.push_back(input);
  Tensor* outputs[] = {&y};
  chain.Run(device, there, outputs);
}

ConvolutionShape ShapeOf(const NhwcConvPlan& plan, DType type, bool tf32) {
  ConvolutionShape shape;
  shape.dtype = type;
  shape.batch = plan.conv.batch, shape.channels = plan.conv.channels, shape.features = plan.conv.features;
  shape.groups = plan.conv.groups;
  shape.axes[0] = plan.axes[1], shape.axes[1] = plan.axes[2];
  shape.tf32 = tf32;
  return shape;
}

bool IsPointwise(const NhwcConvPlan& plan) { return plan.conv.is_pointwise() && plan.conv.groups == 1; }

enum class ConvolutionWay : uint8_t { kLibrary, kPointwise, kDepthwise, kGrouped, kPatches };

const char* NameOf(ConvolutionWay way) {
  switch (way) {
    case ConvolutionWay::kLibrary: return "cudnn";
    case ConvolutionWay::kPointwise: return "cublasLt";
    case ConvolutionWay::kDepthwise: return "depthwise";
    case ConvolutionWay::kGrouped: return "grouped";
    case ConvolutionWay::kPatches: return "patches and product";
  }
  return "";
}

struct ImageConvolution {
  Tensor filter;  // on the device, turned
  Shape weights;
  bool tf32;
  ConvolutionWay way;
  Chain before, after;

  void Run(const Device& device, OpContext& context) const {
    const Node& node = context.node();
    Tensor x = context.Input(0);
    const Tensor *bias = context.OptionalInput(2), *residual = context.OptionalInput(3);
    const NhwcConvPlan plan = PlanNhwcConv(node, x.shape(), weights);
    if (bias) RequirePerChannel(bias->shape(), plan.conv.features, "the bias");
    if (residual)
      Require(residual->shape() == plan.output, "residual of shape ", residual->shape(), " does not fit ", plan.output);
    ConvolutionShape shape = ShapeOf(plan, x.dtype(), tf32);
    const bool by_library = way == ConvolutionWay::kLibrary;
    Require(!by_library || CanConvolve(shape), "cuDNN has no convolution of ", x.shape(), " by ", weights,
            " with this padding");
    Tensor& y = context.Output(0, x.dtype(), plan.output);
    if (y.size() == 0) return;
    Activation activation = ActivationOf(node);
    ConvolutionOperands operands{x.address(), filter.address(), AddressOf(bias), AddressOf(residual), y.address()};
    if (way == ConvolutionWay::kPatches) {
      activation = RunOverPatches(device, shape, plan.channels_first, operands, activation);
    } else {
      if (plan.channels_first) x = Turned(device, x);
      if (context.Has(4)) x = Scaled(device, context, x);
      operands.x = x.address();
      activation = RunWhole(device, shape, operands, activation);
    }
    if (activation.kind != ActivationKind::kNone) RunAffine(device, after, {&y}, y);
  }

  // Some images at a time, whose rows then are still in the device's cache when the product reads them.
  Activation RunOverPatches(const Device& device, ConvolutionShape shape, bool channels_first,
                            const ConvolutionOperands& whole, const Activation& activation) const {
    const int64_t batch = shape.batch, together = ImagesTogether(shape), bytes = BitWidth(shape.dtype) / 8;
    const int64_t image = shape.channels * shape.axes[0].input * shape.axes[1].input * bytes;
    const int64_t made = shape.features * shape.axes[0].output * shape.axes[1].output * bytes;
    Activation left = activation;
    for (int64_t first = 0; first < batch; first += together) {
      shape.batch = std::min(together, batch - first);
      const Tensor rows = GatherPatches(device, shape, channels_first, whole.x + first * image);
      ConvolutionOperands some = whole;
      some.x = rows.address(), some.y += first * made;
      if (some.sum) some.sum += first * made;
      left = RunWhole(device, OverPatches(shape), some, activation);
    }
    return left;
  }

  // Returns the activation that is left to be applied.
  Activation RunWhole(const Device& device, ConvolutionShape shape, ConvolutionOperands operands,
                      Activation activation) const {
    const bool rounds = tf32 || shape.dtype != DType::kFloat;  // only then cuDNN applies more than ReLU
    const bool in_one = rounds && activation.kind != ActivationKind::kNone &&
                        activation.kind != ActivationKind::kRelu && ConvolutionGraph::CanApply(activation);
    const bool as_product = way == ConvolutionWay::kPointwise || way == ConvolutionWay::kPatches;
    shape.has_bias = operands.bias != nullptr;
    shape.has_sum = operands.sum != nullptr;
    if (way != ConvolutionWay::kLibrary && !(as_product && in_one && CanConvolve(shape))) {
      if (as_product)
        RunPointwise(device, shape, operands, activation);
      else
        RunAlone(device, shape, operands, activation);
      return activation;
    }
    Tensor zeros;
    if (shape.has_sum && !shape.has_bias) {  // cuDNN adds a sum only beside a bias, and y may lie where the sum does
      zeros = Tensor(shape.dtype, {shape.features}, device.memory());
      CheckDriver(device.Use().MemsetD8Async(reinterpret_cast<DeviceAddress>(zeros.address()), 0, zeros.bytes(),
                                             device.stream()),
                  "cuMemsetD8Async");
      operands.bias = zeros.address();
      shape.has_bias = true;
    }
    shape.after = activation;
    if (Convolve(device, shape, operands)) activation = {};
    return activation;
  }

  // Both take the activation from the caller where they apply it themselves.
  void RunAlone(const Device& device, const ConvolutionShape& shape, const ConvolutionOperands& operands,
                Activation& activation) const {
    ConvolutionShape whole = shape;
    const bool depthwise = way == ConvolutionWay::kDepthwise;
    if (depthwise ? DepthwiseApplies(activation) : IsLimit(activation.kind))
      whole.after = std::exchange(activation, {});
    (depthwise ? ConvolveDepthwise : ConvolveGrouped)(device, whole, operands);
  }

  // The product that is left when every window is a row.
  static ConvolutionShape OverPatches(ConvolutionShape shape) {
    shape.channels = PatchPitch(shape);
    for (WindowAxis& axis : shape.axes) axis = {axis.output, axis.output, 1, 1, 1, 0, 0};
    return shape;
  }

  // A pixel's channels are a row: the product of all rows with the filter.
  static void RunPointwise(const Device& device, const ConvolutionShape& shape, const ConvolutionOperands& operands,
                           Activation& activation) {
    ProductShape product;
    product.dtype = shape.dtype;
    product.tf32 = shape.tf32;
    product.rows = shape.batch * shape.axes[0].output * shape.axes[1].output;
    product.columns = product.d_pitch = shape.features;
    product.depth = product.a_pitch = product.b_pitch = shape.channels;
    product.b_transposed = true;
    product.has_bias = shape.has_bias;
    product.has_sum = shape.has_sum;
    if (activation.kind == ActivationKind::kRelu) {
      product.after = ProductShape::After::kRelu;
      activation = {};
    }
    Multiply(device, product, {operands.x, operands.w, operands.sum, operands.bias, operands.y, 1});
  }

  static Tensor Turned(const Device& device, const Tensor& x) {
    const int64_t pixels = x.shape().CountBetween(2, x.rank()), channels = x.dim(1);
    Tensor turned(x.dtype(), ToChannelsLast(x.shape()), device.memory());
    CopyWalk(device, {{x.dim(0), pixels, channels}, {channels * pixels, 1, pixels}, {pixels * channels, channels, 1}},
             static_cast<size_t>(BitWidth(x.dtype())) / 8, x.address(), turned.address());
    return turned;
  }

  Tensor Scaled(const Device& device, OpContext& context, const Tensor& x) const {
    Tensor scaled(x.dtype(), x.shape(), device.memory());
    RunAffine(device, before, {&x, &context.Input(4), context.OptionalInput(5)}, scaled);
    return scaled;
  }
};

Tensor FilterOf(const OperatorRequest& request, const ConvolutionShape& shape, ConvolutionWay way, bool channels_first,
                const Tensor& w) {
  const Device& device = *request.settings.device;
  WeightCache& weights = request.request.weights;
  if (way == ConvolutionWay::kPatches)
    return *weights.Get<Tensor>(w, channels_first ? "patch filter in cuda, channels first" : "patch filter in cuda",
                                [&] { return PatchFilter(device, shape, channels_first, w); });
  const bool depthwise = way == ConvolutionWay::kDepthwise;
  return *weights.Get<Tensor>(w, depthwise ? "depthwise filter in cuda" : "filter in cuda",
                              [&] { return TurnedFilter(device, w, depthwise); });
}

std::optional<ChosenKernel> ChooseConvolution(const OperatorRequest& request) {
  const std::optional<Shape> x = request.ShapeOf(0);
  const Tensor* w = request.Constant(1);
  const DType type = request.TypeOf(0);
  if (!x || !w || w->dtype() != type || w->rank() < 3) return std::nullopt;
  if (request.Has(5) && !request.Has(4)) return std::nullopt;
  const NhwcConvPlan plan = PlanNhwcConv(request.node(), *x, w->shape());
  const bool is_flat = plan.axes[0].input == 1 && plan.axes[0].kernel == 1 && plan.axes[0].output == 1;
  ConvolutionShape shape = ShapeOf(plan, type, request.settings.tf32);
  if (!is_flat) return std::nullopt;
  const int compute_major = request.settings.device ? request.settings.device->facts().compute_major : 9;
  const bool some = x->ElementCount() > 0, plain = !request.Has(4);
  ConvolutionWay way = ConvolutionWay::kLibrary;
  if (some && IsDepthwise(shape))
    way = ConvolutionWay::kDepthwise;
  else if (some && !request.Has(3) && IsGrouped(shape, compute_major))
    way = ConvolutionWay::kGrouped;
  else if (some && plain && TakesPatches(shape))
    way = ConvolutionWay::kPatches;
  else if (IsPointwise(plan))
    way = ConvolutionWay::kPointwise;
  if ((way == ConvolutionWay::kLibrary || way == ConvolutionWay::kPointwise) && !CanConvolve(shape))
    return std::nullopt;
  ImageConvolution convolution{{}, w->shape(), request.settings.tf32, way};
  convolution.after = AffineOf(type, false, false, ActivationOf(request.node()));
  if (request.Has(4)) convolution.before = AffineOf(type, true, request.Has(5), ActivationBefore(request.node()));
  if (request.settings.device) convolution.filter = FilterOf(request, shape, way, plan.channels_first, *w);
  return OnDevice(
      request, NameOf(way), [=](const Device& device, OpContext& context) { convolution.Run(device, context); },
      InputBit(1), InputBit(1));
}

std::optional<ChosenKernel> ChoosePool(const OperatorRequest& request, bool is_max, bool channels_last) {
  const std::optional<Shape> x = request.ShapeOf(0);
  const DType type = request.TypeOf(0);
  const bool is_byte = type == DType::kInt8 || type == DType::kUInt8;
  const bool computed = type == DType::kFloat || type == DType::kFloat16 || type == DType::kBFloat16 ||
                        type == DType::kDouble || (is_max && is_byte);
  if (!x || x->rank() < 3 || x->rank() > 4 || !computed || !request.WantsOnly(1)) return std::nullopt;
  struct Pool pool;
  pool.is_max = is_max;
  pool.channels_last = channels_last;
  pool.include_padding = request.node().Int("count_include_pad", 0) != 0;
  // Windows that reach past the padding count fewer elements then.
  if (pool.include_padding && request.node().Int("ceil_mode", 0) != 0) return std::nullopt;
  return OnDevice(request, "pool", [=](const Device& device, OpContext& context) {
    const Tensor& from = context.Input(0);
    const PoolPlan plan(context.node(), channels_last ? ToChannelsFirst(from.shape()) : from.shape());
    const std::array<WindowAxis, 3> axes = ThreeAxes(plan.axes);
    struct Pool filled = pool;
    filled.batch = from.dim(0);
    filled.channels = channels_last ? from.shape().back() : from.dim(1);
    filled.axes[0] = axes[1], filled.axes[1] = axes[2];
    RunPool(device, filled, from,
            context.Output(0, from.dtype(), channels_last ? ToChannelsLast(plan.output) : plan.output));
  });
}

}  // namespace

std::optional<ChosenKernel> ChooseImage(const OperatorRequest& request) {
  if (request.IsInternal("NhwcConv")) return ChooseConvolution(request);
  if (request.Is("MaxPool")) return ChoosePool(request, true, false);
  if (request.Is("AveragePool")) return ChoosePool(request, false, false);
  if (request.IsInternal("NhwcMaxPool")) return ChoosePool(request, true, true);
  if (request.IsInternal("NhwcAveragePool")) return ChoosePool(request, false, true);
  return std::nullopt;
}

}  // namespace ferry::cuda
