#include <algorithm>
#include <cmath>

#include "ops/operator.h"
#include "ops/support/elementwise.h"

namespace ferry {
namespace {

constexpr float kLargest = 255;

// NaN, as infinite inputs make it, becomes 0.
float Cut(float value) { return !(value > 0) ? 0 : value > kLargest ? kLargest : value; }

void ComputeDynamicQuantizeLinear(OpContext& context) {
  const Tensor& x = context.Input(0);
  const float* values = x.Data<float>();
  // The range always holds 0, so that 0 is exactly representable.
  float low = 0, high = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
  // All zeros have no range; any scale gives them back.
  float scale = high == low ? 1.0f : (high - low) / kLargest;
  float zero_point = std::nearbyint(Cut(-low / scale));
  uint8_t* y = context.Output(0, DType::kUInt8, x.shape()).MutableData<uint8_t>();
  context.ParallelFor(x.size(), kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      y[i] = static_cast<uint8_t>(Cut(std::nearbyint(values[i] / scale) + zero_point));
  });
  *context.Output(1, DType::kFloat, {}).MutableData<float>() = scale;
  *context.Output(2, DType::kUInt8, {}).MutableData<uint8_t>() = static_cast<uint8_t>(zero_point);
}

void InferDynamicQuantizeLinear(InferContext& context) {
  if (const SymbolicShape* shape = context.InputShape(0))
    context.SetOutput(0, DType::kUInt8, *shape);
  else
    context.SetOutput(0, DType::kUInt8);
  context.SetOutput(1, DType::kFloat, SymbolicShape{});
  context.SetOutput(2, DType::kUInt8, SymbolicShape{});
}

}  // namespace

FERRY_OPERATOR(DynamicQuantizeLinear, {.compute = ComputeDynamicQuantizeLinear, .infer = InferDynamicQuantizeLinear});

}  // namespace ferry
