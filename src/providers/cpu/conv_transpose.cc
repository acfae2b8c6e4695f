// Transposed convolution over channels-last images: outputs that see the same taps of the window lie `stride` apart,
// and are the rows of one product over pixels gathered by pointers.
#include "ops/support/conv_transpose.h"

#include <algorithm>

#include "base/check_run.h"
#include "kernels/nhwc.h"
#include "kernels/packed_gemm.h"
#include "ops/support/fused.h"
#include "providers/cpu/conv.h"
#include "providers/cpu/cuts.h"
#include "providers/cpu/kernels.h"
#include "providers/cpu/scratch.h"

namespace ferry {
namespace {

// Taps of one axis that reach outputs with (output + pad) % stride == phase.
std::vector<int64_t> TapsOf(const WindowAxis& axis, int64_t phase) {
  std::vector<int64_t> taps;
  for (int64_t tap = 0; tap < axis.kernel; ++tap)
    if (tap * axis.dilation % axis.stride == phase) taps.push_back(tap);
  return taps;
}

using Axes = std::array<WindowAxis, 3>;

struct Phase {
  std::array<std::vector<int64_t>, 3> taps;  // of each axis
  int64_t offset = 0;                        // of its panels
  int64_t count() const { return static_cast<int64_t>(taps[0].size() * taps[1].size() * taps[2].size()); }
};

// Windows that lie side by side along the last axis: their taps are columns of one product.
int64_t MergedTaps(const TransposePlan& plan) {
  const WindowAxis& last = plan.axes.back();
  bool tiles = last.kernel == last.stride && last.dilation == 1 && last.pad_begin == 0 &&
               last.output == last.input * last.stride;
  return tiles && plan.groups == 1 ? last.kernel : 1;
}

struct Phases {
  Phases(const TransposePlan& plan, const Axes& axes, int64_t merged) : columns(plan.group_features * merged) {
    for (int64_t z = 0; z < axes[0].stride; ++z)
      for (int64_t y = 0; y < axes[1].stride; ++y)
        for (int64_t x = 0; x < axes[2].stride; ++x) {
          Phase phase{{TapsOf(axes[0], z), TapsOf(axes[1], y), TapsOf(axes[2], x)}, size};
          size += plan.groups * PackedSize(phase.count() * plan.group_channels, columns);
          each.push_back(std::move(phase));
        }
  }
  int64_t columns;          // of one group
  int64_t size = 0;         // of all panels
  std::vector<Phase> each;  // [z, y, x]
};

// Panels of B[k = tap · channels + c, n = merged tap · features + feature] for every phase and group.
void Pack(const Tensor& weight, const TransposePlan& plan, const Axes& axes, const Phases& phases, float* panels) {
  const int64_t columns = phases.columns, width = plan.axes.back().kernel;
  std::vector<float> ordered;
  for (const Phase& phase : phases.each) {
    int64_t depth = phase.count() * plan.group_channels, one = PackedSize(depth, columns);
    for (int64_t group = 0; group < plan.groups && depth > 0; ++group) {
      ordered.clear();
      for (int64_t z : phase.taps[0])
        for (int64_t y : phase.taps[1])
          for (int64_t x : phase.taps[2])
            for (int64_t c = group * plan.group_channels; c < (group + 1) * plan.group_channels; ++c)
              for (int64_t n = 0; n < columns; ++n)
                ordered.push_back(
                    weight.Data<float>()[(c * plan.group_features + n % plan.group_features) * plan.counts.taps +
                                         (z * axes[1].kernel + y) * width + x + n / plan.group_features]);
      PackMatrix(ordered.data(), depth, columns, columns, 1, panels + phase.offset + group * one);
    }
  }
}

struct Prepared {
  Prepared(const Node& node, const Shape& shape, const Tensor& weight, WeightCache& cache)
      : shape(shape),
        plan(node, ToChannelsFirst(shape), weight.shape()),
        axes(ThreeAxes(plan.axes)),
        merged(MergedTaps(plan)) {
    if (merged > 1) axes[2] = WindowAxis{.input = axes[2].input, .output = axes[2].input};
    phases = std::make_shared<const Phases>(plan, axes, merged);
    std::string form = Cat("phases of ", plan.groups, " merged ", merged);
    for (const WindowAxis& axis : axes) form += Cat(" ", axis.stride, "/", axis.dilation);
    auto fill = [weight, plan = plan, axes = axes, phases = phases](Tensor& made) {
      Pack(weight, plan, axes, *phases, made.MutableData<float>());
    };
    panels = cache.GetTensor(weight, form, DType::kFloat, std::max<int64_t>(1, phases->size), fill);
  }
  Shape shape;
  TransposePlan plan;
  Axes axes;  // the last one without its taps where they are merged
  int64_t merged;
  std::shared_ptr<const Phases> phases;
  std::shared_ptr<const Tensor> panels;
};

class Call {
 public:
  Call(const Prepared& prepared, const float* x, const float* zeros, const GemmEpilogue& epilogue, float* y)
      : plan_(prepared.plan),
        axes_(prepared.axes),
        phases_(*prepared.phases),
        panels_(prepared.panels->Data<float>()),
        columns_(phases_.columns),
        pixel_(plan_.groups * columns_),
        x_(x),
        zeros_(zeros),
        epilogue_(epilogue),
        y_(y) {
    // Rows are short and far apart in a product: what costs more than a limit is done for a whole row of the image.
    if (IsLimit(epilogue.activation.kind)) return;
    later_ = epilogue.activation;
    epilogue_.activation = {};
  }

  int64_t rows() const { return plan_.batch * axes_[0].output * axes_[1].output; }

  void RunRow(int64_t row) const {
    int64_t y = row % axes_[1].output, z = row / axes_[1].output % axes_[0].output,
            image = row / axes_[1].output / axes_[0].output;
    int64_t phase_y = (y + axes_[1].pad_begin) % axes_[1].stride, phase_z = (z + axes_[0].pad_begin) % axes_[0].stride;
    const float* from = x_ + image * plan_.counts.input * plan_.channels;
    float* to = y_ + row * axes_[2].output * pixel_;
    for (int64_t x = 0; x < std::min(axes_[2].stride, axes_[2].output); ++x) {
      int64_t phase_x = (x + axes_[2].pad_begin) % axes_[2].stride;
      const Phase& phase =
          phases_.each[static_cast<size_t>((phase_z * axes_[1].stride + phase_y) * axes_[2].stride + phase_x)];
      RunPhase(phase, from, z, y, x, to + x * pixel_);
    }
    if (later_.kind != ActivationKind::kNone) BestNhwcKernels().activate(later_, to, axes_[2].output * pixel_);
  }

 private:
  // Outputs x, x + stride, … of one row.
  void RunPhase(const Phase& phase, const float* from, int64_t z, int64_t y, int64_t x, float* to) const {
    const WindowAxis& last = axes_[2];
    int64_t count = (last.output - x + last.stride - 1) / last.stride;
    const float** rows =
        ThreadScratch<const float*>(ScratchUse::kRowPointers, std::max<int64_t>(1, phase.count() * count));
    const float** next = rows;
    for (int64_t tap_z : phase.taps[0])
      for (int64_t tap_y : phase.taps[1]) {
        int64_t at_z = Source(axes_[0], z, tap_z), at_y = Source(axes_[1], y, tap_y);
        const float* line =
            at_z < 0 || at_y < 0 ? nullptr : from + (at_z * axes_[1].input + at_y) * last.input * plan_.channels;
        for (int64_t tap_x : phase.taps[2]) {
          // Exact: every output of the phase lies a whole number of strides from where the tap puts the first input.
          int64_t at = (x + last.pad_begin - tap_x * last.dilation) / last.stride;
          for (int64_t i = 0; i < count; ++i, ++at)
            *next++ = line && at >= 0 && at < last.input ? line + at * plan_.channels : zeros_;
        }
      }
    int64_t depth = phase.count() * plan_.group_channels, one = PackedSize(depth, columns_);
    for (int64_t group = 0; group < plan_.groups; ++group) {
      GatheredGemm gemm{rows,
                        count,
                        phase.count(),
                        plan_.group_channels,
                        panels_ + phase.offset + group * one,
                        columns_,
                        to + group * columns_,
                        last.stride * pixel_,
                        epilogue_};
      gemm.offset = group * plan_.group_channels;
      if (epilogue_.bias) gemm.epilogue.bias += group * columns_;
      BestGemmKernels().gathered(gemm);
    }
  }

  static int64_t Source(const WindowAxis& axis, int64_t output, int64_t tap) {
    int64_t at = output + axis.pad_begin - tap * axis.dilation;
    return at >= 0 && at / axis.stride < axis.input ? at / axis.stride : -1;
  }

  const TransposePlan& plan_;
  const Axes& axes_;
  const Phases& phases_;
  const float* panels_;
  int64_t columns_, pixel_;  // of one group, of all
  const float *x_, *zeros_;
  GemmEpilogue epilogue_;
  Activation later_;
  float* y_;
};

class NhwcConvTranspose final : public CpuKernel {
 public:
  std::string name() const override { return "packed gemm transposed conv"; }
  NhwcConvTranspose(Tensor weight, Activation activation, WeightCache& cache)
      : weight_(std::move(weight)), activation_(activation), cache_(cache) {
    zeros_ = Tensor::Zeros(DType::kFloat, {weight_.dim(0)});
  }

  void Expect(const Node& node, const Shape& shape) {
    expected_ = std::make_unique<const Prepared>(node, shape, weight_, cache_);
  }

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    if (expected_ && x.shape() == expected_->shape) return RunPrepared(context, x, *expected_);
    RunPrepared(context, x, Prepared(context.node(), x.shape(), weight_, cache_));
  }

 private:
  void RunPrepared(OpContext& context, const Tensor& x, const Prepared& prepared) const {
    const TransposePlan& plan = prepared.plan;
    const Tensor* bias = context.OptionalInput(2);
    if (bias) RequirePerChannel(bias->shape(), plan.output[1], "the bias");
    GemmEpilogue epilogue;
    std::vector<float> biases;  // once for each merged tap
    for (int64_t i = 0; bias && i < prepared.merged; ++i)
      biases.insert(biases.end(), bias->Data<float>(), bias->Data<float>() + bias->size());
    epilogue.bias = bias ? biases.data() : nullptr;
    epilogue.activation = activation_;
    Tensor& y = context.Output(0, DType::kFloat, ToChannelsLast(plan.output));
    if (y.size() == 0) return;
    Call call(prepared, x.Data<float>(), zeros_.Data<float>(), epilogue, y.MutableData<float>());
    int64_t work = y.size() / call.rows() * plan.group_channels * plan.counts.taps / prepared.axes[2].stride;
    context.ParallelFor(call.rows(), 1 + kPieceWork / std::max<int64_t>(1, work), [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        CheckRun();
        call.RunRow(row);
      }
    });
  }

  Tensor weight_, zeros_;
  Activation activation_;
  WeightCache& cache_;
  std::unique_ptr<const Prepared> expected_;
};

}  // namespace

std::unique_ptr<CpuKernel> MakeConvTransposeKernel(const CpuKernelRequest& request) {
  if (request.node.op_type != "NhwcConvTranspose" || request.node.domain != kInternalDomain) return nullptr;
  if (request.inputs.size() < 2 || !request.inputs[0] || !request.inputs[1]) return nullptr;
  const std::optional<Tensor>& weight = request.inputs[1]->constant;
  const Type& type = request.inputs[0]->type;
  if (!weight || weight->dtype() != DType::kFloat || weight->size() == 0 || type.dtype != DType::kFloat) return nullptr;
  constexpr int64_t kLargestStride = 32;  // every phase has panels of its own
  for (int64_t stride : request.node.Ints("strides"))
    if (stride > kLargestStride) return nullptr;
  auto kernel = std::make_unique<NhwcConvTranspose>(*weight, ActivationOf(request.node), request.weights);
  std::optional<Shape> shape = type.shape ? ToConcrete(*type.shape) : std::nullopt;
  try {
    if (shape) kernel->Expect(request.node, *shape);
  } catch (const Error&) {
    return nullptr;  // told again when the node runs, where more is known
  }
  return kernel;
}

}  // namespace ferry
