#include <cmath>

#include "base/poll.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/scalar.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

int64_t CountOf(int64_t start, int64_t limit, int64_t delta) {
  if (delta > 0 ? start >= limit : start <= limit) return 0;
  uint64_t span = delta > 0 ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                            : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
  uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : uint64_t{0} - static_cast<uint64_t>(delta);
  uint64_t count = (span - 1) / step + 1;
  if (count > INT64_MAX) Fail(ErrorCode::kLimit, "a range of ", count, " numbers is too long");
  return static_cast<int64_t>(count);
}

int64_t CountOf(double start, double limit, double delta) {
  Require(std::isfinite(start) && std::isfinite(limit) && !std::isnan(delta), "a range from ", start, " to ", limit,
          " by ", delta, " has no length");
  double count = std::ceil((limit - start) / delta);
  if (!(count > 0)) return 0;
  if (count >= 0x1p62) Fail(ErrorCode::kLimit, "a range of ", count, " numbers is too long");
  return static_cast<int64_t>(count);
}

// What start, limit and delta are computed in: integers in 64 bits, floats in double, or in the type asked for.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

template <class T>
void FillRange(Wide<T> start, Wide<T> delta, int64_t count, T* out) {
  Poll poll;
  for (int64_t i = 0; i < count; ++i, poll()) {
    if constexpr (std::is_integral_v<T>)
      out[i] = static_cast<T>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
    else
      out[i] = static_cast<T>(start + static_cast<double>(i) * delta);
  }
}

using RangeTypes = TypeList<float, double, int16_t, int32_t, int64_t>;

void CheckScalars(const Tensor* const (&inputs)[3]) {
  for (const Tensor* input : inputs) {
    Require(input->size() == 1, "start, limit and delta must be single numbers, one has shape ", input->shape());
    Require(input->dtype() == inputs[0]->dtype(), "start is ", inputs[0]->dtype(), ", limit or delta is ",
            input->dtype());
  }
}

void CheckStashType(const Node& node) {
  int64_t stash = node.Int("stash_type", 1);
  Require(stash == static_cast<int64_t>(DType::kFloat) || stash == static_cast<int64_t>(DType::kDouble), "stash_type ",
          stash, " is neither 1 (float) nor 11 (double)");
}

void ComputeRange(OpContext& context) {
  const Tensor* inputs[3] = {&context.Input(0), &context.Input(1), &context.Input(2)};
  CheckScalars(inputs);
  DType dtype = inputs[0]->dtype();
  if (IsSmallFloat(dtype)) CheckStashType(context.node());
  Tensor numbers[3];
  for (size_t i = 0; i < 3; ++i) numbers[i] = IsSmallFloat(dtype) ? WidenToFloat(*inputs[i]) : *inputs[i];
  Dispatch(RangeTypes{}, numbers[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Wide<T> start = *numbers[0].Data<T>(), limit = *numbers[1].Data<T>(), delta = *numbers[2].Data<T>();
    Require(delta != 0, "the delta of a range cannot be 0");
    int64_t count = CountOf(start, limit, delta);
    Tensor& out = context.Output(0, dtype, {count});
    Tensor wide = IsSmallFloat(dtype) ? Tensor(DType::kFloat, {count}) : out;
    FillRange<T>(start, delta, count, wide.MutableData<T>());
    NarrowInto(wide, out);
  });
}

// The length when all three are constants; whatever is wrong with them is said when it runs.
std::optional<int64_t> ConstantCount(const InferContext& context) {
  const Tensor* inputs[3] = {context.InputConstant(0), context.InputConstant(1), context.InputConstant(2)};
  for (const Tensor* input : inputs)
    if (!input || input->size() != 1 || input->dtype() != inputs[0]->dtype()) return std::nullopt;
  std::optional<int64_t> count;
  DType compute = ComputeType(inputs[0]->dtype());
  Dispatch(RangeTypes{}, compute, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Wide<T> numbers[3];
    for (size_t i = 0; i < 3; ++i)
      numbers[i] = *(IsSmallFloat(inputs[i]->dtype()) ? WidenToFloat(*inputs[i]) : *inputs[i]).template Data<T>();
    if (numbers[2] != 0) count = CountOf(numbers[0], numbers[1], numbers[2]);
  });
  return count;
}

void InferRange(InferContext& context) {
  DType dtype = context.InputDType(0);
  if (std::optional<int64_t> count = ConstantCount(context)) return context.SetOutput(0, dtype, {Dim(*count)});
  Dim start = KnownScalar(context, 0), limit = KnownScalar(context, 1), delta = KnownScalar(context, 2);
  bool from_zero_by_one = start.known() && *start.value == 0 && delta.known() && *delta.value == 1;
  if (start.known() && limit.known() && delta.known() && *delta.value != 0)
    context.SetOutput(0, dtype, {Dim(CountOf(*start.value, *limit.value, *delta.value))});
  else
    context.SetOutput(0, dtype, {from_zero_by_one ? limit : Dim()});
}

}  // namespace

FERRY_OPERATOR(Range, {.compute = ComputeRange, .infer = InferRange});

}  // namespace ferry
