// What the operators have in common that passes/fold_qdq makes: integers in, exact 32-bit sums, then
//   float:  y = sum · factor + shift
//   8 bits: y = nearest(sum · factor + shift) + zero, halves to even, cut to [low, high]
// where the limits hold a ReLU or a Clip as well as the type's own range.
#pragma once

#include "graph/model.h"
#include "kernels/int8_gemm.h"
#include "tensor/tensor.h"

namespace ferry {

struct QuantizedStep {
  DType y_type = DType::kUInt8;  // uint8, int8 or float
  int32_t x_zero = 0, y_zero = 0;
  int32_t low = 0, high = 255;

  // Attributes x_zero, y_zero, low, high and y_type, checked.
  static QuantizedStep Read(const Node& node);
  void Write(Node& node) const;

  bool is_float() const { return y_type == DType::kFloat; }
  float Value(int32_t sum, float factor, float shift) const;
  int32_t Level(int32_t sum, float factor, float shift) const;
};

bool IsByte(DType type);
struct ByteRange {
  int32_t low, high;
};
ByteRange RangeOfByte(DType type);

// factor [columns] and bias, which is absent, int32 (part of the sums) or float (the shift), both [columns].
class QuantizedColumns {
 public:
  QuantizedColumns(const QuantizedStep& step, const Tensor& factor, const Tensor* bias, int64_t columns);
  // Writes one result at `at` of a tensor of the step's type.
  void Store(uint32_t sum, int64_t column, int64_t at, void* y) const;

  float factor(int64_t column) const { return factor_[column]; }
  int32_t added(int64_t column) const { return sums_ ? sums_[column] : 0; }
  float shift(int64_t column) const { return shifts_ ? shifts_[column] : 0; }
  bool has_shift() const { return shifts_ != nullptr; }

 private:
  QuantizedStep step_;
  const float* factor_;
  const int32_t* sums_ = nullptr;
  const float* shifts_ = nullptr;
};

// The elements of a tensor of bytes of either type.
inline const uint8_t* BytesOf(const Tensor& tensor) { return reinterpret_cast<const uint8_t*>(tensor.raw()); }
inline uint8_t* MutableBytesOf(Tensor& tensor) { return reinterpret_cast<uint8_t*>(tensor.mutable_raw()); }
// What turns such bytes into unsigned ones (kernels/int8_gemm.h).
inline uint8_t FlipOf(DType type) { return type == DType::kInt8 ? kSignFlip : uint8_t{0}; }

// A byte of either type as a number.
inline int32_t ByteAt(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kInt8 ? int32_t{tensor.Data<int8_t>()[i]} : int32_t{tensor.Data<uint8_t>()[i]};
}

}  // namespace ferry
