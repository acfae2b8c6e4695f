// Images padded, shuffled and resized.
#include <algorithm>

#include "ops/support/fused.h"
#include "ops/support/indices.h"
#include "ops/support/resample.h"
#include "providers/cuda/chain.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/operators.h"

namespace ferry::cuda {
namespace {

size_t BytesOf(const Tensor& tensor) { return static_cast<size_t>(BitWidth(tensor.dtype())) / 8; }

void FillWith(const Device& device, const Tensor* value, Tensor& y) {
  if (value) return CopyWalk(device, {{y.size()}, {0}, {1}}, BytesOf(y), value->address(), y.address());
  CheckDriver(device.Use().MemsetD8Async(reinterpret_cast<DeviceAddress>(y.address()), 0, y.bytes(), device.stream()),
              "cuMemsetD8Async");
}

// `before` of each axis; the result is filled first.
void Pad(const Device& device, OpContext& context, const std::vector<int64_t>& before,
         const std::vector<int64_t>& after) {
  const Tensor& x = context.Input(0);
  Require(before.size() == x.rank(), "pads are for ", before.size(), " axes, the input has ", x.rank());
  Shape shape = x.shape();
  for (size_t i = 0; i < x.rank(); ++i) shape[i] += before[i] + after[i];
  Tensor& y = context.Output(0, x.dtype(), shape);
  if (y.size() == 0) return;
  FillWith(device, context.OptionalInput(2), y);
  Walk walk{x.shape().ToVector(), x.shape().Strides(), shape.Strides()};
  for (size_t i = 0; i < x.rank(); ++i) walk.to_offset += before[i] * walk.to[i];
  CopyWalk(device, std::move(walk), BytesOf(x), x.address(), y.address());
}

std::optional<ChosenKernel> ChoosePad(const OperatorRequest& request) {
  const Tensor* pads = request.Constant(1);
  const std::optional<Shape> x = request.ShapeOf(0);
  if (!pads || !x || request.node().String("mode", "constant") != "constant" || !CanCopy(request.TypeOf(0)))
    return std::nullopt;
  if (request.Has(2) && request.TypeOf(2) != request.TypeOf(0)) return std::nullopt;
  std::vector<int64_t> named;
  if (request.Has(3)) {
    if (!request.Constant(3)) return std::nullopt;
    named = IntegerList(*request.Constant(3), "axes");
  } else {
    for (size_t i = 0; i < x->rank(); ++i) named.push_back(static_cast<int64_t>(i));
  }
  const std::vector<int64_t> lengths = IntegerList(*pads, "pads");
  const std::vector<size_t> axes = NormalizeAxes(named, x->rank());
  if (lengths.size() != 2 * axes.size()) return std::nullopt;
  std::vector<int64_t> before(x->rank(), 0), after(x->rank(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    before[axes[i]] = lengths[i], after[axes[i]] = lengths[axes.size() + i];
    for (int64_t length : {lengths[i], lengths[axes.size() + i]})
      if (length < 0 || length > INT32_MAX) return std::nullopt;
  }
  return OnDevice(
      request, "walk", [=](const Device& device, OpContext& context) { Pad(device, context, before, after); },
      InputBit(1) | InputBit(3));
}

// Channels as [groups, C / groups], transposed; two images are the two groups, and two results the halves.
void Shuffle(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor* second = context.OptionalInput(1);
  const int64_t channels = x.shape().back(), pixels = channels == 0 ? 0 : x.size() / channels;
  const int64_t groups = context.node().Int("groups", 1);
  if (!second) {
    Require(groups >= 1 && channels % groups == 0, channels, " channels cannot be shuffled in ", groups, " groups");
    Tensor& y = context.Output(0, x.dtype(), x.shape());
    const int64_t each = channels / groups;
    return CopyWalk(device, {{pixels, each, groups}, {channels, 1, each}, {channels, groups, 1}}, BytesOf(x),
                    x.address(), y.address());
  }
  Require(x.shape() == second->shape() && groups == 2, "images of ", x.shape(), " and ", second->shape(),
          " cannot be mixed");
  const bool halves = context.node().outputs.size() == 2;
  Require(!halves || channels % 2 == 0, channels, " channels cannot be halved");
  Shape shape = x.shape();
  if (!halves) shape.back() = 2 * channels;
  const int64_t each = halves ? channels / 2 : channels;
  for (size_t half = 0; half < (halves ? 2u : 1u); ++half) {
    Tensor& y = context.Output(half, x.dtype(), shape);
    int64_t place = 0;
    for (const Tensor* from : {&x, second})
      CopyWalk(device, {{pixels, each}, {channels, 1}, {2 * each, 2}, static_cast<int64_t>(half) * each, place++},
               BytesOf(x), from->address(), y.address());
  }
}

constexpr char kResizeSource[] = R"(
struct Resize { int64 total; int32 out[4], taps[4], first[4]; int64 strides[4]; };
extern "C" __global__ void RunResize(const ELEMENT* x, const int32* places, const float* weights, ELEMENT* y,
                                     const Resize how) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < how.total; i += int64(gridDim.x) * blockDim.x) {
    int64 rest = i;
    int32 at[4];
#pragma unroll
    for (int axis = 3; axis >= 0; --axis) {
      at[axis] = how.first[axis] + int32(rest % how.out[axis]) * how.taps[axis];
      rest /= how.out[axis];
    }
    float sum = 0.0f;
    for (int a = 0; a < how.taps[0]; ++a)
      for (int b = 0; b < how.taps[1]; ++b)
        for (int c = 0; c < how.taps[2]; ++c) {
          const float outer = weights[at[0] + a] * weights[at[1] + b] * weights[at[2] + c];
          const ELEMENT* row = x + places[at[0] + a] * how.strides[0] + places[at[1] + b] * how.strides[1] +
                               places[at[2] + c] * how.strides[2];
          for (int d = 0; d < how.taps[3]; ++d) {
            const float weight = outer * weights[at[3] + d];
            if (weight != 0.0f) sum += weight * Load(row[places[at[3] + d] * how.strides[3]]);
          }
        }
    y[i] = Stored<ELEMENT>::From(sum);
  }
}
)";

struct Resize {
  int64_t total;
  int32_t out[4], taps[4], first[4];
  int64_t strides[4];
};

// What is read where, made once for the shapes that are known.
struct ResizePlan {
  Resize how{};
  Shape shape;
  Tensor places, weights;  // on the device
};

KernelSource ResizeSource(DType type) { return {"RunResize", Cat("#define ELEMENT ", TypeName(type), kResizeSource)}; }

std::optional<std::vector<ResizeAxis>> AxesOf(const OperatorRequest& request, const Shape& x, const Shape& y) {
  const Node& node = request.node();
  const ResizeAttributes attributes(node);
  if (attributes.coordinates == CoordinateMode::kCrop || attributes.policy != AspectPolicy::kStretch)
    return std::nullopt;
  std::vector<int64_t> named = node.Ints("axes");
  if (named.empty())
    for (size_t i = 0; i < x.rank(); ++i) named.push_back(static_cast<int64_t>(i));
  const std::vector<size_t> axes = NormalizeAxes(named, x.rank());
  const bool by_scale = request.Has(2) && !(request.Constant(2) && request.Constant(2)->size() == 0);
  std::vector<ResizeAxis> plan;
  for (size_t i = 0; i < x.rank(); ++i)
    plan.push_back({.input = x[i],
                    .output = y[i],
                    .scale = static_cast<double>(y[i]) / static_cast<double>(x[i]),
                    .width = static_cast<double>(y[i])});
  if (!by_scale) return plan;
  const Tensor* scales = request.Constant(2);
  if (!scales || scales->dtype() != DType::kFloat || scales->size() != static_cast<int64_t>(axes.size()))
    return std::nullopt;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis& axis = plan[axes[i]];
    axis.scale = static_cast<double>(scales->Clone().Data<float>()[i]);
    axis.width = static_cast<double>(axis.input) * axis.scale;
  }
  return plan;
}

std::optional<ChosenKernel> ChooseResize(const OperatorRequest& request) {
  const DType type = request.TypeOf(0);
  const std::optional<Shape> x = request.ShapeOf(0), y = request.ResultShape();
  if ((type != DType::kFloat && type != DType::kFloat16 && type != DType::kBFloat16) || !x || !y) return std::nullopt;
  if (x->rank() < 1 || x->rank() > 4 || x->ElementCount() == 0 || y->ElementCount() == 0) return std::nullopt;
  const std::optional<std::vector<ResizeAxis>> axes = AxesOf(request, *x, *y);
  if (!axes) return std::nullopt;
  const ResizeAttributes attributes(request.node());
  auto plan = std::make_shared<ResizePlan>();
  plan->shape = *y;
  plan->how.total = y->ElementCount();
  std::vector<int32_t> places;
  std::vector<float> weights;
  const std::vector<int64_t> strides = x->Strides();
  for (size_t i = 0; i < 4; ++i) {
    const size_t missing = 4 - x->rank();
    AxisTaps taps{1, {0}, {1}, {}};
    if (i >= missing) {
      const ResizeAxis& axis = (*axes)[i - missing];
      if (axis.is_identity(attributes)) {
        taps = {1, {}, {}, {}};
        for (int64_t k = 0; k < axis.output; ++k) taps.input.push_back(k), taps.weight.push_back(1);
      } else {
        taps = MakeTaps(attributes, axis);
        taps.weight.resize(taps.input.size(), 1);  // nearest ones have none
      }
      plan->how.strides[i] = strides[i - missing];
    }
    const bool outside = std::find(taps.outside.begin(), taps.outside.end(), true) != taps.outside.end();
    if (outside || taps.count < 1 || taps.input.size() > size_t{1} << 24 || places.size() > size_t{1} << 28)
      return std::nullopt;
    plan->how.out[i] = static_cast<int32_t>(i < missing ? 1 : (*y)[i - missing]);
    plan->how.taps[i] = static_cast<int32_t>(taps.count);
    plan->how.first[i] = static_cast<int32_t>(places.size());
    places.insert(places.end(), taps.input.begin(), taps.input.end());
    weights.insert(weights.end(), taps.weight.begin(), taps.weight.end());
  }
  if (const Device* device = request.settings.device) {
    const auto count = static_cast<int64_t>(places.size());
    Tensor host_places(DType::kInt32, {count}), host_weights(DType::kFloat, {count});
    std::copy(places.begin(), places.end(), host_places.MutableData<int32_t>());
    std::copy(weights.begin(), weights.end(), host_weights.MutableData<float>());
    plan->places = host_places.In(device->memory());
    plan->weights = host_weights.In(device->memory());
  }
  return OnDevice(
      request, "resize",
      [plan](const Device& device, OpContext& context) {
        const Tensor& from = context.Input(0);
        Tensor& to = context.Output(0, from.dtype(), plan->shape);
        const Function function =
            FindKernel(device, Cat("resize ", from.dtype()), [&] { return ResizeSource(from.dtype()); });
        Launch(device, function, GridFor(device, plan->how.total), from.address(), plan->places.address(),
               plan->weights.address(), to.address(), plan->how);
      },
      InputBit(1) | InputBit(2) | InputBit(3));
}

}  // namespace

std::vector<KernelSource> LayoutSources() { return {ResizeSource(DType::kFloat), ResizeSource(DType::kBFloat16)}; }

std::optional<ChosenKernel> ChooseLayout(const OperatorRequest& request) {
  if (request.Is("Pad")) return ChoosePad(request);
  if (request.Is("Resize")) return ChooseResize(request);
  if (request.IsInternal("NhwcShuffle") && CanCopy(request.TypeOf(0))) return OnDevice(request, "walk", Shuffle);
  return std::nullopt;
}

}  // namespace ferry::cuda
