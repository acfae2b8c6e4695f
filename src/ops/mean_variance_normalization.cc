#include <cmath>

#include "ops/support/cast_tensor.h"
#include "ops/support/elementwise.h"
#include "ops/support/fold_axes.h"

namespace ferry {
namespace {

constexpr double kEpsilon = 1e-9;  // as in the function body the standard gives

template <class T, class F>
Tensor Combined(const OpContext& context, const Tensor& a, const Tensor& b, const F& f) {
  Tensor out(a.dtype(), a.shape());
  RunBinary(context, a, b, out, [&](const BinaryRun& run) { LoopOver<T>(run, f); });
  return out;
}

template <class T>
void Normalize(const OpContext& context, const Tensor& x, const std::vector<bool>& reduced, double count, Tensor& y) {
  Tensor mean = FoldAxes(context, x, reduced, Fold::kSum);
  for (int64_t i = 0; i < mean.size(); ++i) mean.MutableData<double>()[i] /= count;
  Tensor centred = Combined<T>(context, x, CastTensor(mean, x.dtype()), [](T a, T b) { return a - b; });
  Tensor deviation = FoldAxes(context, centred, reduced, Fold::kSumOfSquares);
  double* values = deviation.MutableData<double>();
  for (int64_t i = 0; i < deviation.size(); ++i) values[i] = std::sqrt(values[i] / count) + kEpsilon;
  NarrowInto(Combined<T>(context, centred, CastTensor(deviation, x.dtype()), [](T a, T b) { return a / b; }), y);
}

void ComputeMeanVarianceNormalization(OpContext& context) {
  const Tensor& x = context.Input(0);
  std::vector<int64_t> axes = context.node().Has("axes") ? context.node().Ints("axes") : std::vector<int64_t>{0, 2, 3};
  std::vector<bool> reduced(x.rank(), axes.empty());
  for (size_t axis : NormalizeAxes(axes, x.rank())) reduced[axis] = true;
  int64_t count = 1;
  for (size_t axis = 0; axis < x.rank(); ++axis)
    if (reduced[axis]) count = CheckedProduct(count, x.dim(axis));
  Tensor wide = WidenToFloat(x);
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Dispatch(FloatTypes{}, wide.dtype(), [&](auto tag) {
    Normalize<typename decltype(tag)::type>(context, wide, reduced, static_cast<double>(count), y);
  });
}

}  // namespace

FERRY_OPERATOR(MeanVarianceNormalization,
               {.compute = ComputeMeanVarianceNormalization, .infer = InferSameAsInput, .in_place = kInput0});

}  // namespace ferry
