#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/support/cast_tensor.h"
#include "ops/support/elementwise.h"
#include "ops/support/moments.h"

namespace ferry {
namespace {

// x as [batch, channels, size]; a vector is a batch of single values.
struct Layout {
  explicit Layout(const Shape& shape) {
    Require(shape.rank() > 0, "the input must have a batch axis, is a scalar");
    batch = shape[0];
    if (shape.rank() == 1) return;
    channels = shape[1];
    size = shape.CountBetween(2, shape.rank());
  }
  int64_t batch, channels = 1, size = 1;
};

// y = (x − mean) · factor + offset, each per channel.
struct Channels {
  std::vector<double> mean, factor, offset;
};

std::vector<double> PerChannel(const OpContext& context, size_t input, const char* name, int64_t channels) {
  const Tensor& tensor = context.Input(input);
  Require(IsFloating(tensor.dtype()), "'", name, "' must be floats, got ", tensor.dtype());
  Require(tensor.size() == channels, "'", name, "' must have one value per channel (", channels, "), has shape ",
          tensor.shape());
  Tensor values = CastTensor(tensor, DType::kDouble);
  return {values.Data<double>(), values.Data<double>() + values.size()};
}

template <class T>
void Normalize(const OpContext& context, const Layout& layout, const Channels& channels, const T* x, T* y) {
  int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, layout.size));
  std::vector<T> mean(channels.mean.begin(), channels.mean.end());
  std::vector<T> factor(channels.factor.begin(), channels.factor.end());
  std::vector<T> offset(channels.offset.begin(), channels.offset.end());
  context.ParallelFor(layout.batch * layout.channels, grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      auto c = static_cast<size_t>(row % layout.channels);
      const T* from = x + row * layout.size;
      T* to = y + row * layout.size;
      for (int64_t i = 0; i < layout.size; ++i) to[i] = (from[i] - mean[c]) * factor[c] + offset[c];
    }
  });
}

// Of every channel over the batch and all its places.
template <class T>
std::vector<Moments> BatchMoments(const OpContext& context, const Layout& layout, const T* x) {
  std::vector<Moments> moments(static_cast<size_t>(layout.channels));
  auto count = static_cast<double>(layout.batch * layout.size);
  context.ParallelFor(layout.channels, 1, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      auto sum = [&](const auto& f) {
        double total = 0;
        for (int64_t n = 0; n < layout.batch; ++n)
          total += SumOver(x + (n * layout.channels + c) * layout.size, layout.size, f);
        return total;
      };
      double mean = sum([](T value) { return static_cast<double>(value); }) / count;
      double squares =
          sum([mean](T value) { return (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean); });
      moments[static_cast<size_t>(c)] = {mean, squares / count};
    }
  });
  return moments;
}

void WriteRunning(OpContext& context, size_t output, const std::vector<double>& before,
                  const std::vector<double>& now) {
  double momentum = context.node().Float("momentum", 0.9f);
  std::vector<double> mixed(before.size());
  for (size_t c = 0; c < before.size(); ++c) mixed[c] = before[c] * momentum + now[c] * (1 - momentum);
  const Tensor& statistics = context.Input(output + 2);
  CastInto(Tensor::FromVector(mixed, statistics.shape()),
           context.Output(output, statistics.dtype(), statistics.shape()));
}

void ComputeBatchNormalization(OpContext& context) {
  const Tensor& x = context.Input(0);
  Layout layout(x.shape());
  std::vector<double> scale = PerChannel(context, 1, "scale", layout.channels);
  std::vector<double> variance = PerChannel(context, 4, "input_var", layout.channels);
  Channels channels{.mean = PerChannel(context, 3, "input_mean", layout.channels),
                    .factor = {},
                    .offset = PerChannel(context, 2, "B", layout.channels)};
  bool trains = context.node().Int("training_mode", 0) != 0;
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Tensor wide_x = WidenToFloat(x), wide_y = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, x.shape()) : y;
  Dispatch(FloatTypes{}, wide_x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (trains) {
      std::vector<double> running_mean = channels.mean, running_variance = variance;
      std::vector<Moments> moments = BatchMoments(context, layout, wide_x.Data<T>());
      for (size_t c = 0; c < moments.size(); ++c) channels.mean[c] = moments[c].mean, variance[c] = moments[c].variance;
      WriteRunning(context, 1, running_mean, channels.mean);
      WriteRunning(context, 2, running_variance, variance);
    }
    double epsilon = context.node().Float("epsilon", 1e-5f);
    for (size_t c = 0; c < scale.size(); ++c) channels.factor.push_back(scale[c] / std::sqrt(variance[c] + epsilon));
    Normalize(context, layout, channels, wide_x.Data<T>(), wide_y.MutableData<T>());
  });
  NarrowInto(wide_y, y);
}

void InferBatchNormalization(InferContext& context) {
  InferSameAsInput(context);
  for (size_t output = 1; output < 3; ++output) {
    Type type = context.InputType(output + 2);
    const SymbolicShape* shape = context.InputShape(0);
    if (!type.shape && shape && shape->size() > 1) type.shape = SymbolicShape{(*shape)[1]};
    context.SetOutput(output, std::move(type));
  }
}

}  // namespace

FERRY_OPERATOR(BatchNormalization,
               {.compute = ComputeBatchNormalization, .infer = InferBatchNormalization, .in_place = kInput0});

}  // namespace ferry
