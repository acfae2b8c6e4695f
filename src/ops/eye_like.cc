#include <algorithm>
#include <cstring>

#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/elements.h"
#include "ops/support/infer.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// One element of value 1.
Tensor One(DType dtype) {
  if (IsFloating(dtype) && dtype != DType::kDouble) return NarrowFromFloat(Tensor::Scalar(1.0f), dtype);
  Tensor one(dtype, {});
  Dispatch(TypeList<double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool>{}, dtype,
           [&](auto tag) { *one.MutableData<typename decltype(tag)::type>() = 1; });
  return one;
}

void ComputeEyeLike(OpContext& context) {
  const Tensor& like = context.Input(0);
  Require(like.rank() == 2, "the input must be a matrix, has shape ", like.shape());
  DType dtype = TypeAttribute(context.node(), "dtype", like.dtype());
  Tensor one = One(dtype);
  Tensor& out = context.Output(0, dtype, like.shape());
  ForLookedParts(static_cast<int64_t>(out.bytes()), 1, [&](int64_t begin, int64_t end) {
    std::memset(out.mutable_raw() + begin, 0, static_cast<size_t>(end - begin));
  });
  int64_t rows = like.dim(0), cols = like.dim(1), k = context.node().Int("k", 0);
  if (k >= cols || k <= -rows) return;
  int64_t row = std::max<int64_t>(0, -k), col = std::max<int64_t>(0, k);
  ForEachWidth(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (T* data = MutableRawData<T>(out); row < rows && col < cols; ++row, ++col)
      data[row * cols + col] = *RawData<T>(one);
  });
}

void InferEyeLike(InferContext& context) {
  const SymbolicShape* like = context.InputShape(0);
  context.SetOutput(0, TypeAttribute(context.node(), "dtype", context.InputDType(0)), like ? *like : UnknownShape(2));
}

}  // namespace

FERRY_OPERATOR(EyeLike, {.compute = ComputeEyeLike, .infer = InferEyeLike});

}  // namespace ferry
