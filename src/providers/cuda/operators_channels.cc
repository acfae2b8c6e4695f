// What works channel by channel: normalisations of instances and groups, batch norms that stand alone, and transposed
// convolutions over channels-last images.
#include <algorithm>

#include "ops/support/conv_transpose.h"
#include "ops/support/fused.h"
#include "ops/support/nhwc.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/operators.h"
#include "providers/cuda/product.h"

namespace ferry::cuda {
namespace {

bool IsComputed(DType type) {
  return type == DType::kFloat || type == DType::kFloat16 || type == DType::kBFloat16 || type == DType::kDouble;
}

// A block for each group: [rows of groups, channels · size], a scale and a bias for every channel.
constexpr char kGroupsSource[] = R"(
__device__ inline COMPUTE SumOfBlock(COMPUTE x, COMPUTE* parts) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(FULL_WARP, x, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (int i = 1; i < blockDim.x / 32; ++i) x += parts[i];
  return x;
}
extern "C" __global__ void NormalizeGroups(const ELEMENT* x, const SCALE* scale, const SCALE* bias, ELEMENT* y, int64 rows,
                                           int64 groups, int64 channels, int64 size, float epsilon) {
  __shared__ COMPUTE parts[32];
  const int64 count = channels * size;
  for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const ELEMENT* from = x + row * count;
    COMPUTE sum = COMPUTE(0), squares = COMPUTE(0);
    for (int64 i = threadIdx.x; i < count; i += blockDim.x) sum += COMPUTE(Load(from[i]));
    const COMPUTE mean = SumOfBlock(sum, parts) / COMPUTE(count);
    for (int64 i = threadIdx.x; i < count; i += blockDim.x) {
      const COMPUTE v = COMPUTE(Load(from[i])) - mean;
      squares += v * v;
    }
    const COMPUTE factor = COMPUTE(1) / sqrt(SumOfBlock(squares, parts) / COMPUTE(count) + COMPUTE(epsilon));
    for (int64 i = threadIdx.x; i < count; i += blockDim.x) {
      const int64 channel = row % groups * channels + i / size;
      const COMPUTE v = (COMPUTE(Load(from[i])) - mean) * (factor * COMPUTE(Load(scale[channel])));
      y[row * count + i] = Stored<ELEMENT>::From(v + COMPUTE(Load(bias[channel])));
    }
  }
}
)";

KernelSource GroupsSource(DType type, DType scale) {
  return {"NormalizeGroups", Cat("#define ELEMENT ", TypeName(type), "\n#define SCALE ", TypeName(scale),
                                 "\n#define COMPUTE ", ComputeTypeName(type), kGroupsSource)};
}

void NormalizeGroups(const Device& device, OpContext& context, int64_t groups) {
  const Tensor &x = context.Input(0), &scale = context.Input(1), &bias = context.Input(2);
  Require(x.rank() >= 2, "the input must have a batch and a channel axis, has shape ", x.shape());
  const int64_t channels = x.dim(1);
  if (groups == 0) groups = std::max<int64_t>(1, channels);
  Require(groups > 0 && channels % groups == 0, channels, " channels cannot be divided into ", groups, " groups");
  for (const Tensor* part : {&scale, &bias})
    Require(part->size() == channels, "scale and bias must have one value per channel (", channels, "), one has shape ",
            part->shape());
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  if (y.size() == 0) return;
  const int64_t rows = x.dim(0) * groups, size = x.shape().CountBetween(2, x.rank());
  const Function function = FindKernel(device, Cat("groups ", x.dtype(), " ", scale.dtype()),
                                       [&] { return GroupsSource(x.dtype(), scale.dtype()); });
  const Grid grid{static_cast<unsigned>(std::min<int64_t>(rows, 1 << 20)),
                  channels / groups * size > 2048 ? 1024u : 256u};
  Launch(device, function, grid, x.address(), scale.address(), bias.address(), y.address(), rows, groups,
         channels / groups, size, context.node().Float("epsilon", 1e-5f));
}

std::optional<ChosenKernel> ChooseGroups(const OperatorRequest& request) {
  const bool instances = request.Is("InstanceNormalization");
  if (!instances && !request.Is("GroupNormalization")) return std::nullopt;
  const int64_t groups = instances ? 0 : request.node().Int("num_groups", 0);
  if (!IsComputed(request.TypeOf(0)) || !IsComputed(request.TypeOf(1)) || request.TypeOf(2) != request.TypeOf(1))
    return std::nullopt;
  if (!instances && groups <= 0) return std::nullopt;
  return OnDevice(request, "normalize",
                  [=](const Device& device, OpContext& context) { NormalizeGroups(device, context, groups); });
}

// (x − mean) / sqrt(variance + epsilon) · scale + bias, each of a channel.
constexpr char kBatchNormSource[] = R"(
extern "C" __global__ void BatchNorm(const ELEMENT* x, const SCALE* scale, const SCALE* bias, const SCALE* mean,
                                     const SCALE* variance, ELEMENT* y, int64 total, int64 channels, int64 size,
                                     float epsilon) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += int64(gridDim.x) * blockDim.x) {
    const int64 c = i / size % channels;
    const COMPUTE factor = COMPUTE(Load(scale[c])) / sqrt(COMPUTE(Load(variance[c])) + COMPUTE(epsilon));
    y[i] = Stored<ELEMENT>::From((COMPUTE(Load(x[i])) - COMPUTE(Load(mean[c]))) * factor + COMPUTE(Load(bias[c])));
  }
}
)";

KernelSource BatchNormSource(DType type, DType scale) {
  return {"BatchNorm", Cat("#define ELEMENT ", TypeName(type), "\n#define SCALE ", TypeName(scale),
                           "\n#define COMPUTE ", ComputeTypeName(type), kBatchNormSource)};
}

void RunBatchNorm(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  const int64_t channels = x.rank() > 1 ? x.dim(1) : 1, size = x.rank() > 2 ? x.shape().CountBetween(2, x.rank()) : 1;
  for (size_t i = 1; i < 5; ++i)
    Require(context.Input(i).size() == channels, "input ", i, " must have one value per channel (", channels,
            "), has shape ", context.Input(i).shape());
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  if (y.size() == 0) return;
  const DType scale = context.Input(1).dtype();
  const Function function =
      FindKernel(device, Cat("batch norm ", x.dtype(), " ", scale), [&] { return BatchNormSource(x.dtype(), scale); });
  Launch(device, function, GridFor(device, y.size()), x.address(), context.Input(1).address(),
         context.Input(2).address(), context.Input(3).address(), context.Input(4).address(), y.address(), y.size(),
         channels, size, context.node().Float("epsilon", 1e-5f));
}

std::optional<ChosenKernel> ChooseBatchNorm(const OperatorRequest& request) {
  if (!request.Is("BatchNormalization") || !request.WantsOnly(1) || request.node().Int("training_mode", 0) != 0)
    return std::nullopt;
  for (size_t i = 0; i < 5; ++i)
    if (!IsComputed(request.TypeOf(i)) || (i > 1 && request.TypeOf(i) != request.TypeOf(1))) return std::nullopt;
  return OnDevice(request, "normalize", RunBatchNorm);
}

// A product makes what every pixel of the input gives to every tap; each output then adds up what reaches it.
constexpr char kCollectSource[] = R"(
struct Axis { int64 input, output, kernel, stride, dilation, pad; };
struct Collect { int64 total, features, group_features, taps; Axis z, y, x; };
__device__ inline int64 SourceOf(const Axis& axis, int64 output, int64 tap) {
  const int64 at = output + axis.pad - tap * axis.dilation;
  return at >= 0 && at % axis.stride == 0 && at / axis.stride < axis.input ? at / axis.stride : -1;
}
extern "C" __global__ void CollectTaps(const ELEMENT* given, const ELEMENT* bias, ELEMENT* to, const Collect how) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < how.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 feature = i % how.features;
    int64 rest = i / how.features;
    const int64 x = rest % how.x.output; rest /= how.x.output;
    const int64 y = rest % how.y.output; rest /= how.y.output;
    const int64 z = rest % how.z.output, image = rest / how.z.output;
    const int64 group = feature / how.group_features, column = feature % how.group_features;
    COMPUTE sum = bias ? COMPUTE(Load(bias[feature])) : COMPUTE(0);
    int64 tap = 0;
    for (int64 kz = 0; kz < how.z.kernel; ++kz) {
      const int64 at_z = SourceOf(how.z, z, kz);
      for (int64 ky = 0; ky < how.y.kernel; ++ky) {
        const int64 at_y = at_z < 0 ? -1 : SourceOf(how.y, y, ky);
        for (int64 kx = 0; kx < how.x.kernel; ++kx, ++tap) {
          const int64 at_x = at_y < 0 ? -1 : SourceOf(how.x, x, kx);
          if (at_x < 0) continue;
          const int64 pixel = ((image * how.z.input + at_z) * how.y.input + at_y) * how.x.input + at_x;
          sum += COMPUTE(Load(given[(pixel * how.features + group * how.group_features) * how.taps +
                                    tap * how.group_features + column]));
        }
      }
    }
    to[i] = Stored<ELEMENT>::From(sum);
  }
}
)";

struct CollectAxis {
  int64_t input, output, kernel, stride, dilation, pad;
};
struct Collect {
  int64_t total, features, group_features, taps;
  CollectAxis axes[3];
};

KernelSource CollectSource(DType type) {
  return {"CollectTaps",
          Cat("#define ELEMENT ", TypeName(type), "\n#define COMPUTE ", ComputeTypeName(type), kCollectSource)};
}

// [C, M / groups, taps] to [groups, taps · M / groups, C / groups], which a product reads along its depth.
Tensor TurnedTransposeFilter(const Device& device, const Tensor& w, int64_t groups) {
  const Tensor there = w.In(device.memory());
  const int64_t channels = w.dim(0) / groups, features = w.dim(1), taps = w.shape().CountBetween(2, w.rank());
  Tensor turned(w.dtype(), {groups, taps * features, channels}, device.memory());
  CopyWalk(device,
           {{groups, taps, features, channels},
            {channels * features * taps, 1, taps, features * taps},
            {taps * features * channels, features * channels, channels, 1}},
           static_cast<size_t>(BitWidth(w.dtype())) / 8, there.address(), turned.address());
  device.Synchronize();  // `there` ends here, and other threads will read
  return turned;
}

struct TransposedConvolution {
  Tensor filter;  // on the device, turned
  Shape weights;
  bool tf32;
  Chain after;  // none without an activation

  void Run(const Device& device, OpContext& context) const {
    const Tensor& x = context.Input(0);
    const Tensor* bias = context.OptionalInput(2);
    Require(x.rank() >= 3, "the input needs a batch, spatial axes and channels, its shape is ", x.shape());
    const TransposePlan plan(context.node(), ToChannelsFirst(x.shape()), weights);
    const int64_t features = plan.output[1];
    if (bias) RequirePerChannel(bias->shape(), features, "the bias");
    Tensor& y = context.Output(0, x.dtype(), ToChannelsLast(plan.output));
    if (y.size() == 0) return;
    const size_t width = static_cast<size_t>(BitWidth(x.dtype())) / 8;
    // As many images at a time as need no more than this between the two kernels.
    constexpr int64_t kMostBytes = int64_t{256} << 20;
    const int64_t each = std::max<int64_t>(1, plan.counts.input * features * plan.counts.taps);
    const int64_t images =
        std::clamp<int64_t>(kMostBytes / static_cast<int64_t>(width) / each, 1, std::max<int64_t>(1, plan.batch));
    Tensor given(x.dtype(), {images * each}, device.memory());
    for (int64_t first = 0; first < plan.batch; first += images) {
      const int64_t count = std::min(images, plan.batch - first);
      const std::byte* from = x.address() + static_cast<size_t>(first * plan.counts.input * plan.channels) * width;
      if (plan.channels == 0 || plan.counts.input == 0)
        SetZero(device, given);
      else
        Give(device, plan, count, from, width, given);
      Add(device, plan, count, given, bias,
          y.address() + static_cast<size_t>(first * plan.counts.output * features) * width);
    }
    const Tensor* inputs[] = {&y};
    Tensor* outputs[] = {&y};
    if (after.output_count() > 0) after.Run(device, inputs, outputs);
  }

 private:
  static void SetZero(const Device& device, Tensor& tensor) {
    CheckDriver(device.Use().MemsetD8Async(reinterpret_cast<DeviceAddress>(tensor.address()), 0, tensor.bytes(),
                                           device.stream()),
                "cuMemsetD8Async");
  }

  void Give(const Device& device, const TransposePlan& plan, int64_t images, const std::byte* from, size_t width,
            Tensor& given) const {
    const int64_t columns = plan.counts.taps * plan.group_features;
    ProductShape product;
    product.dtype = given.dtype();
    product.tf32 = tf32;
    product.rows = images * plan.counts.input;
    product.columns = columns;
    product.depth = product.b_pitch = plan.group_channels;
    product.a_pitch = plan.channels;
    product.d_pitch = plan.groups * columns;
    product.b_transposed = true;
    for (int64_t group = 0; group < plan.groups; ++group)
      Multiply(device, product,
               {from + static_cast<size_t>(group * plan.group_channels) * width,
                filter.address() + static_cast<size_t>(group * columns * plan.group_channels) * width, nullptr, nullptr,
                given.address() + static_cast<size_t>(group * columns) * width});
  }

  static void Add(const Device& device, const TransposePlan& plan, int64_t images, const Tensor& given,
                  const Tensor* bias, std::byte* to) {
    const std::array<WindowAxis, 3> axes = ThreeAxes(plan.axes);
    Collect how{
        images * plan.counts.output * plan.output[1], plan.output[1], plan.group_features, plan.counts.taps, {}};
    for (size_t i = 0; i < 3; ++i)
      how.axes[i] = {axes[i].input,  axes[i].output,   axes[i].kernel,
                     axes[i].stride, axes[i].dilation, axes[i].pad_begin};
    const Function function =
        FindKernel(device, Cat("collect ", given.dtype()), [&] { return CollectSource(given.dtype()); });
    const std::byte* offset = bias ? bias->address() : nullptr;
    Launch(device, function, GridFor(device, how.total), given.address(), offset, to, how);
  }
};

std::optional<ChosenKernel> ChooseConvTranspose(const OperatorRequest& request) {
  const Tensor* w = request.Constant(1);
  const std::optional<Shape> x = request.ShapeOf(0);
  const DType type = request.TypeOf(0);
  if (!request.IsInternal("NhwcConvTranspose") || !x || !w || w->dtype() != type || !CanMultiply(type))
    return std::nullopt;
  const TransposePlan plan(request.node(), ToChannelsFirst(*x), w->shape());
  if (plan.axes.size() > 3 || w->size() == 0) return std::nullopt;
  TransposedConvolution convolution{{}, w->shape(), request.settings.tf32, {}};
  const Activation activation = ActivationOf(request.node());
  if (activation.kind != ActivationKind::kNone) {
    const int input = convolution.after.AddInput(type);
    convolution.after.AddOutput(AddActivation(convolution.after, input, activation));
  }
  if (request.settings.device)
    convolution.filter = *request.request.weights.Get<Tensor>(*w, Cat("transposed filter in cuda ", plan.groups), [&] {
      return TurnedTransposeFilter(*request.settings.device, *w, plan.groups);
    });
  return OnDevice(
      request, "cublasLt and collect",
      [=](const Device& device, OpContext& context) { convolution.Run(device, context); }, InputBit(1), InputBit(1));
}

}  // namespace

std::vector<KernelSource> ChannelSources() {
  return {GroupsSource(DType::kFloat, DType::kFloat), GroupsSource(DType::kFloat16, DType::kFloat),
          BatchNormSource(DType::kBFloat16, DType::kFloat), CollectSource(DType::kFloat),
          CollectSource(DType::kFloat16)};
}

std::optional<ChosenKernel> ChooseChannels(const OperatorRequest& request) {
  if (std::optional<ChosenKernel> chosen = ChooseGroups(request)) return chosen;
  if (std::optional<ChosenKernel> chosen = ChooseBatchNorm(request)) return chosen;
  return ChooseConvTranspose(request);
}

}  // namespace ferry::cuda
