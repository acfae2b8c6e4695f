#include "ops/support/quantized_step.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/support/infer.h"

namespace ferry {

bool IsByte(DType type) { return type == DType::kInt8 || type == DType::kUInt8; }

ByteRange RangeOfByte(DType type) { return type == DType::kInt8 ? ByteRange{-128, 127} : ByteRange{0, 255}; }

QuantizedStep QuantizedStep::Read(const Node& node) {
  QuantizedStep step;
  step.y_type = TypeAttribute(node, "y_type", DType::kUInt8);
  Require(IsByte(step.y_type) || step.is_float(), "a quantized step gives bytes or floats, not ", step.y_type);
  auto read = [&](const char* name, int64_t otherwise, int32_t low, int32_t high) {
    int64_t value = node.Int(name, otherwise);
    Require(value >= low && value <= high, "attribute '", name, "' is ", value, ", must be in [", low, ", ", high, "]");
    return static_cast<int32_t>(value);
  };
  step.x_zero = read("x_zero", 0, -128, 255);
  if (step.is_float()) return step;
  ByteRange range = RangeOfByte(step.y_type);
  step.y_zero = read("y_zero", 0, range.low, range.high);
  step.low = read("low", range.low, range.low, range.high);
  step.high = read("high", range.high, step.low, range.high);
  return step;
}

void QuantizedStep::Write(Node& node) const {
  node.Set("y_type", static_cast<int64_t>(y_type));
  node.Set("x_zero", int64_t{x_zero});
  if (is_float()) return;
  node.Set("y_zero", int64_t{y_zero});
  node.Set("low", int64_t{low});
  node.Set("high", int64_t{high});
}

float QuantizedStep::Value(int32_t sum, float factor, float shift) const {
  return std::fma(static_cast<float>(sum), factor, shift);
}

int32_t QuantizedStep::Level(int32_t sum, float factor, float shift) const {
  float value = Value(sum, factor, shift);
  float least = static_cast<float>(low - y_zero), most = static_cast<float>(high - y_zero);
  // Written so that NaN becomes a number too.
  value = !(value > least) ? least : value > most ? most : value;
  return static_cast<int32_t>(std::nearbyint(value)) + y_zero;
}

QuantizedColumns::QuantizedColumns(const QuantizedStep& step, const Tensor& factor, const Tensor* bias, int64_t columns)
    : step_(step), factor_(factor.Data<float>()) {
  Require(factor.size() == columns, "the factors have shape ", factor.shape(), ", there are ", columns, " columns");
  if (!bias) return;
  Require(bias->size() == columns, "the bias has shape ", bias->shape(), ", there are ", columns, " columns");
  if (bias->dtype() == DType::kInt32)
    sums_ = bias->Data<int32_t>();
  else
    shifts_ = bias->Data<float>();
}

void QuantizedColumns::Store(uint32_t sum, int64_t column, int64_t at, void* y) const {
  auto whole = static_cast<int32_t>(sum + static_cast<uint32_t>(added(column)));
  if (step_.is_float())
    static_cast<float*>(y)[at] = step_.Value(whole, factor(column), shift(column));
  else
    static_cast<uint8_t*>(y)[at] = static_cast<uint8_t>(step_.Level(whole, factor(column), shift(column)));
}

}  // namespace ferry
