#include <cmath>
#include <limits>

#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// Eight running sums in double: quick, and good for planes of any size.
template <class T, class Term>
double Sum(const T* values, int64_t count, const Term& term) {
  double sums[8] = {};
  ForLookedParts(count / 8, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = 8 * begin; i < 8 * end; i += 8)
      for (int64_t lane = 0; lane < 8; ++lane) sums[lane] += term(values[i + lane]);
  });
  for (int64_t i = count / 8 * 8; i < count; ++i) sums[0] += term(values[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// reduce(plane, count) makes one number of each channel's plane.
template <class Reduce>
void ComputeGlobal(OpContext& context, const Reduce& reduce) {
  const Tensor& x = context.Input(0);
  Require(x.rank() >= 2, "the input needs a batch and channels, its shape is ", x.shape());
  Shape shape = Shape::Filled(x.rank(), 1);
  shape[0] = x.dim(0);
  shape[1] = x.dim(1);
  Tensor& y = context.Output(0, x.dtype(), shape);
  int64_t count = x.shape().CountBetween(2, x.rank());
  Tensor wide = WidenToFloat(x);
  Tensor result = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, shape) : y;
  Dispatch(FloatTypes{}, wide.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = wide.Data<T>();
    T* to = result.MutableData<T>();
    context.ParallelFor(y.size(), 1 + 65536 / std::max<int64_t>(count, 1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(reduce(from + i * count, count));
    });
  });
  NarrowInto(result, y);
}

void ComputeGlobalAveragePool(OpContext& context) {
  ComputeGlobal(context, [](const auto* values, int64_t count) {
    return Sum(values, count, [](double value) { return value; }) / static_cast<double>(count);
  });
}

void ComputeGlobalMaxPool(OpContext& context) {
  ComputeGlobal(context, [](const auto* values, int64_t count) {
    using T = std::remove_cvref_t<decltype(*values)>;
    T best = -std::numeric_limits<T>::infinity();
    ForLookedParts(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        if (values[i] > best || std::isnan(values[i])) best = values[i];
    });
    return best;
  });
}

void ComputeGlobalLpPool(OpContext& context) {
  auto p = static_cast<double>(context.node().Int("p", 2));
  Require(p >= 1, "p must be at least 1, is ", p);
  ComputeGlobal(context, [p](const auto* values, int64_t count) {
    if (p == 1) return Sum(values, count, [](double value) { return std::abs(value); });
    if (p == 2) return std::sqrt(Sum(values, count, [](double value) { return value * value; }));
    return std::pow(Sum(values, count, [p](double value) { return std::pow(std::abs(value), p); }), 1 / p);
  });
}

void InferGlobalPool(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x) return context.SetOutput(0, context.InputDType(0));
  Require(x->size() >= 2, "the input needs a batch and channels, its shape is ", *x);
  SymbolicShape out(x->size(), Dim(1));
  out[0] = (*x)[0];
  out[1] = (*x)[1];
  context.SetOutput(0, context.InputDType(0), std::move(out));
}

}  // namespace

FERRY_OPERATOR(GlobalAveragePool, {.compute = ComputeGlobalAveragePool, .infer = InferGlobalPool});
FERRY_OPERATOR(GlobalMaxPool, {.compute = ComputeGlobalMaxPool, .infer = InferGlobalPool});
FERRY_OPERATOR(GlobalLpPool, {.compute = ComputeGlobalLpPool, .infer = InferGlobalPool});

}  // namespace ferry
