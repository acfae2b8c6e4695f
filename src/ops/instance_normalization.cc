// Normalisation of groups of channels, each instance by itself. InstanceNormalization has a group for every channel.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/work_poll.h"
#include "kernels/elementwise.h"
#include "ops/support/cast_tensor.h"
#include "ops/support/elementwise.h"
#include "ops/support/moments.h"

namespace ferry {
namespace {

template <class T>
struct GroupRun {
  const T* x;
  T* y;
  const T* scale;  // of the group's first channel
  const T* bias;
  int64_t channels, size;
  double epsilon;
};

void NormalizeFloats(const GroupRun<float>& run) {
  const ElementwiseKernels& kernels = BestElementwiseKernels();
  int64_t count = run.channels * run.size;
  auto mean = static_cast<float>(kernels.sum(run.x, count) / static_cast<double>(count));
  CheckRun();
  double variance = kernels.squares(run.x, mean, count) / static_cast<double>(count);
  auto factor = static_cast<float>(1 / std::sqrt(variance + run.epsilon));
  for (int64_t c = 0; c < run.channels; ++c)
    ForLookedParts(run.size, 1, [&](int64_t begin, int64_t end) {
      const int64_t at = c * run.size + begin;
      kernels.standardize(run.x + at, mean, factor * run.scale[c], run.bias[c], run.y + at, end - begin);
    });
}

template <class T>
void NormalizeGroup(const GroupRun<T>& run) {
  if constexpr (std::is_same_v<T, float>) return NormalizeFloats(run);
  Moments moments = MomentsOf(run.x, run.channels * run.size);
  auto mean = static_cast<T>(moments.mean);
  auto factor = static_cast<T>(1 / std::sqrt(moments.variance + run.epsilon));
  for (int64_t c = 0; c < run.channels; ++c) {
    const T* from = run.x + c * run.size;
    T* to = run.y + c * run.size;
    T stretch = factor * run.scale[c], bias = run.bias[c];
    for (int64_t i = 0; i < run.size; ++i) to[i] = (from[i] - mean) * stretch + bias;
  }
}

Tensor PerChannel(const OpContext& context, size_t input, const char* name, int64_t channels, DType type) {
  const Tensor& tensor = context.Input(input);
  Require(tensor.size() == channels, "'", name, "' must have one value per channel (", channels, "), has shape ",
          tensor.shape());
  return CastTensor(tensor, type);
}

void ComputeGroups(OpContext& context, int64_t groups) {
  const Tensor& x = context.Input(0);
  int64_t channels = x.dim(1), size = x.shape().CountBetween(2, x.rank());
  Require(groups > 0 && channels % groups == 0, channels, " channels cannot be divided into ", groups, " groups");
  int64_t per_group = channels / groups, count = CheckedProduct(per_group, size);
  double epsilon = context.node().Float("epsilon", 1e-5f);
  DType compute = ComputeType(x.dtype());
  Tensor scale = PerChannel(context, 1, "scale", channels, compute),
         bias = PerChannel(context, 2, "bias", channels, compute);
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Tensor wide_x = WidenToFloat(x), wide_y = compute == x.dtype() ? y : Tensor(compute, x.shape());
  Dispatch(FloatTypes{}, compute, [&](auto tag) {
    using T = typename decltype(tag)::type;
    int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, count));
    // Nothing to do for no elements, however many empty groups they are said to form.
    int64_t rows = y.size() == 0 ? 0 : CheckedProduct(x.dim(0), groups);
    context.ParallelFor(rows, grain, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        int64_t channel = row % groups * per_group;
        NormalizeGroup<T>({wide_x.Data<T>() + row * count, wide_y.MutableData<T>() + row * count,
                           scale.Data<T>() + channel, bias.Data<T>() + channel, per_group, size, epsilon});
      }
    });
  });
  NarrowInto(wide_y, y);
}

void RequireChannels(const OpContext& context) {
  Require(context.Input(0).rank() >= 2, "the input must have a batch and a channel axis, has shape ",
          context.Input(0).shape());
}

void ComputeInstanceNormalization(OpContext& context) {
  RequireChannels(context);
  ComputeGroups(context, std::max<int64_t>(1, context.Input(0).dim(1)));
}

void ComputeGroupNormalization(OpContext& context) {
  RequireChannels(context);
  Require(context.node().Has("num_groups"), "attribute 'num_groups' is missing");
  ComputeGroups(context, context.node().Int("num_groups", 0));
}

}  // namespace

FERRY_OPERATOR(GroupNormalization,
               {.compute = ComputeGroupNormalization, .infer = InferSameAsInput, .in_place = kInput0});
FERRY_OPERATOR(InstanceNormalization,
               {.compute = ComputeInstanceNormalization, .infer = InferSameAsInput, .in_place = kInput0});

}  // namespace ferry
