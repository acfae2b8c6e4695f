#include <algorithm>

#include "ops/operator.h"
#include "ops/support/cast_tensor.h"
#include "ops/support/dispatch.h"
#include "ops/support/infer.h"
#include "ops/support/random.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

double ScalarInput(const OpContext& context, size_t input, const char* name, double otherwise) {
  const Tensor* tensor = context.OptionalInput(input);
  if (!tensor) return otherwise;
  Require(tensor->size() == 1, "'", name, "' must be a scalar, has shape ", tensor->shape());
  return *CastTensor(*tensor, DType::kDouble).Data<double>();
}

// Kept elements are scaled up so that the expected sum stays what it was.
template <class T>
void Drop(const T* x, T* y, bool* mask, int64_t count, double ratio, RandomState& state) {
  T scale = static_cast<T>(1 / (1 - ratio));
  for (int64_t i = 0; i < count; ++i) {
    mask[i] = state.Uniform() >= ratio;
    y[i] = mask[i] ? x[i] * scale : T{0};
  }
}

void ComputeDropout(OpContext& context) {
  const Tensor& x = context.Input(0);
  double ratio = ScalarInput(context, 1, "ratio", 0.5);
  bool trains = ScalarInput(context, 2, "training_mode", 0) != 0;
  Require(!trains || (ratio >= 0 && ratio < 1), "'ratio' must be at least 0 and less than 1, is ", ratio);
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  if (!trains || ratio == 0) {
    CastInto(x, y);
    if (!context.Wants(1)) return;
    bool* mask = context.Output(1, DType::kBool, x.shape()).MutableData<bool>();
    std::fill_n(mask, x.size(), true);
    return;
  }
  Tensor& mask = context.Output(1, DType::kBool, x.shape());
  RandomState state = RandomStateFor(context.node());
  Tensor wide_x = WidenToFloat(x), wide_y = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, x.shape()) : y;
  Dispatch(FloatTypes{}, wide_x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Drop(wide_x.Data<T>(), wide_y.MutableData<T>(), mask.MutableData<bool>(), x.size(), ratio, state);
  });
  NarrowInto(wide_y, y);
}

void InferDropout(InferContext& context) {
  InferSameAsInput(context);
  Type mask = context.InputType(0);
  if (!mask.known()) mask = Type::Tensor(DType::kBool);
  mask.dtype = DType::kBool;
  context.SetOutput(1, std::move(mask));
}

}  // namespace

FERRY_OPERATOR(Dropout, {.compute = ComputeDropout, .infer = InferDropout, .in_place = kInput0, .is_random = true});

}  // namespace ferry
