#include <cmath>

#include "ops/operator.h"
#include "ops/support/conv.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

constexpr size_t kMostSpatialAxes = 8;  // a sample has 2^axes corners

// Columns as in ImageSource, but every tap is moved by its own offset and read between pixels.
template <class T>
class DeformedSource final : public PanelSource<T> {
 public:
  DeformedSource(const ConvPlan& plan, int64_t offset_groups, const T* x, const T* offset, const T* mask)
      : plan_(plan), offset_groups_(offset_groups), x_(x), offset_(offset), mask_(mask) {}

  void Pack(int64_t batch, int64_t depth, int64_t depths, int64_t line, int64_t lines, int64_t width,
            T* out) const override {
    int64_t image = batch / plan_.groups;
    int64_t per_offset_group = plan_.channels / offset_groups_;
    size_t corners = size_t{1} << plan_.axes.size();
    std::vector<Corner> samples;
    int64_t sampled_group = -1;
    for (int64_t i = 0; i < depths; ++i, out += width) {
      int64_t tap = (depth + i) % plan_.counts.taps;
      int64_t channel = batch % plan_.groups * plan_.group_channels + (depth + i) / plan_.counts.taps;
      if (channel / per_offset_group != sampled_group) {
        sampled_group = channel / per_offset_group;
        samples = SampleAll(image, sampled_group, line, lines);
      }
      const T* plane = x_ + (image * plan_.channels + channel) * plan_.counts.input;
      const Corner* corner = samples.data() + static_cast<size_t>(tap * lines) * corners;
      for (int64_t j = 0; j < lines; ++j) {
        T sum{0};
        for (size_t c = 0; c < corners; ++c, ++corner) sum += corner->weight * plane[corner->offset];
        out[j] = sum;
      }
      for (int64_t j = lines; j < width; ++j) out[j] = T{0};
    }
  }

 private:
  struct Corner {
    int64_t offset;  // 0 with weight 0 where the corner is outside
    T weight;
  };

  // The corners of every tap for some output pixels, shared by all channels of an offset group.
  std::vector<Corner> SampleAll(int64_t image, int64_t group, int64_t line, int64_t lines) const {
    size_t corners = size_t{1} << plan_.axes.size();
    std::vector<Corner> samples(static_cast<size_t>(plan_.counts.taps * lines) * corners, Corner{0, T{0}});
    Corner* to = samples.data();
    for (int64_t tap = 0; tap < plan_.counts.taps; ++tap)
      for (int64_t j = 0; j < lines; ++j, to += corners) {
        int64_t row = (image * offset_groups_ + group) * plan_.counts.taps + tap;
        T scale = mask_ ? mask_[row * plan_.counts.output + line + j] : T{1};
        Sample(row, tap, line + j, scale, to);
      }
    return samples;
  }

  void Sample(int64_t row, int64_t tap, int64_t pixel, T scale, Corner* to) const {
    size_t rank = plan_.axes.size();
    int64_t low[kMostSpatialAxes];
    T fraction[kMostSpatialAxes];
    int64_t pixel_rest = pixel, tap_rest = tap;
    for (size_t a = rank; a-- > 0;) {
      const WindowAxis& axis = plan_.axes[a];
      int64_t base = axis.Position(pixel_rest % axis.output, tap_rest % axis.kernel);
      pixel_rest /= axis.output;
      tap_rest /= axis.kernel;
      int64_t at = row * static_cast<int64_t>(rank) + static_cast<int64_t>(a);
      T position = static_cast<T>(base) + offset_[at * plan_.counts.output + pixel];
      // Also where the offset is not a number.
      if (!(position > T{-1} && position < static_cast<T>(axis.input))) return;
      low[a] = static_cast<int64_t>(std::floor(position));
      fraction[a] = position - static_cast<T>(low[a]);
    }
    for (size_t corner = 0; corner < size_t{1} << rank; ++corner) {
      T weight = scale;
      int64_t offset = 0;
      bool inside = true;
      for (size_t a = 0; a < rank && inside; ++a) {
        bool high = (corner >> a & 1) != 0;
        int64_t position = low[a] + (high ? 1 : 0);
        inside = position >= 0 && position < plan_.axes[a].input;
        weight *= high ? fraction[a] : T{1} - fraction[a];
        offset = offset * plan_.axes[a].input + position;
      }
      if (inside) to[corner] = {offset, weight};
    }
  }

  const ConvPlan& plan_;
  int64_t offset_groups_;
  const T *x_, *offset_, *mask_;
};

void RequirePerPixel(const Tensor& tensor, const ConvPlan& plan, int64_t channels, const char* what) {
  Shape expected = plan.output;
  expected[1] = channels;
  Require(tensor.shape() == expected, what, " must have shape ", expected, ", has ", tensor.shape());
}

void ComputeDeformConv(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& w = context.Input(1);
  const Tensor& offset = context.Input(2);
  const Tensor* bias = context.OptionalInput(3);
  const Tensor* mask = context.OptionalInput(4);
  ConvPlan plan = PlanConv(context.node(), x.shape(), w.shape());
  Require(plan.axes.size() <= kMostSpatialAxes, "at most ", kMostSpatialAxes, " spatial axes are supported");
  int64_t offset_groups = context.node().Int("offset_group", 1);
  Require(offset_groups >= 1 && plan.channels % offset_groups == 0, plan.channels, " channels cannot be split into ",
          offset_groups, " offset groups");
  int64_t per_pixel = CheckedProduct(offset_groups, plan.counts.taps);
  RequirePerPixel(offset, plan, CheckedProduct(per_pixel, static_cast<int64_t>(plan.axes.size())), "offset");
  if (mask) RequirePerPixel(*mask, plan, per_pixel, "mask");
  if (bias) RequirePerChannel(bias->shape(), plan.features, "the bias");

  Tensor& y = context.Output(0, x.dtype(), plan.output);
  Tensor result = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, plan.output) : y;
  Tensor wide_x = WidenToFloat(x), wide_w = WidenToFloat(w), wide_offset = WidenToFloat(offset);
  Tensor wide_bias = bias ? WidenToFloat(*bias) : Tensor(), wide_mask = mask ? WidenToFloat(*mask) : Tensor();
  std::vector<int64_t> weight_offsets = plan.WeightOffsets();
  Dispatch(FloatTypes{}, result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = result.MutableData<T>();
    for (int64_t i = 0; i < plan.batch * plan.features; ++i)
      std::fill_n(to + i * plan.counts.output, plan.counts.output,
                  bias ? wide_bias.Data<T>()[i % plan.features] : T{0});
    auto same = [](T value, int64_t, int64_t) { return value; };
    StridedSource<T, T, decltype(same)> weights(wide_w.Data<T>(), plan.depth(), 1, weight_offsets, same);
    DeformedSource<T> columns(plan, offset_groups, wide_x.Data<T>(), wide_offset.Data<T>(),
                              mask ? wide_mask.Data<T>() : nullptr);
    PanelGemm<T>({.m = plan.group_features,
                  .n = plan.counts.output,
                  .k = plan.depth(),
                  .batches = plan.batch * plan.groups,
                  .a = &weights,
                  .b = &columns,
                  .c = to,
                  .c_row = plan.counts.output,
                  .c_batch = plan.group_features * plan.counts.output,
                  .accumulate = true},
                 context.services().pool);
  });
  NarrowInto(result, y);
}

void InferDeformConv(InferContext& context) {
  InferConv(context, 0, 1, context.InputDType(0));
  if (context.output_count() == 0) return;
  // The offsets have the output's spatial sizes, which helps where the input's are not known.
  const SymbolicShape* offset = context.InputShape(2);
  std::optional<SymbolicShape>& out = context.outputs()[0].type.shape;
  if (!offset || !out || offset->size() != out->size()) return;
  for (size_t axis = 2; axis < out->size(); ++axis)
    if (!(*out)[axis].known() && !(*offset)[axis].unknown()) (*out)[axis] = (*offset)[axis];
}

}  // namespace

FERRY_OPERATOR(DeformConv, {.compute = ComputeDeformConv, .infer = InferDeformConv});

}  // namespace ferry
