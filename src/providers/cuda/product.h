// Matrix products by cuBLASLt, with what follows them in the same kernel: bias, activation, a sum.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "providers/cuda/launch.h"
#include "tensor/dtype.h"

namespace ferry::cuda {

// D = activation(alpha · A · B + bias + C) for each of `batch` triples; all matrices row-major, the bias along rows of
// D.
struct ProductShape {
  DType dtype = DType::kFloat;
  DType result = DType::kUndefined;  // the type of D; undefined: dtype. Another one has neither bias nor sum
  int64_t rows = 0, columns = 0, depth = 0, batch = 1;
  bool a_transposed = false, b_transposed = false;   // A lies as [depth, rows], B as [columns, depth]
  int64_t a_stride = 0, b_stride = 0, d_stride = 0;  // elements between the matrices of a batch; 0: one for all
  int64_t a_pitch = 0, b_pitch = 0, d_pitch = 0;     // elements between rows as they lie
  bool has_bias = false, has_sum = false;            // C has D's layout
  // Gelu: the form with tanh. Silu only where TakesFewRows.
  enum class After : uint8_t { kNothing, kRelu, kGelu, kSilu } after = After::kNothing;
  bool tf32 = false;
  uint32_t alignment = 256;  // bytes, of all matrices; found by Multiply

  auto Key() const {
    return std::make_tuple(dtype, result, rows, columns, depth, batch, a_transposed, b_transposed, a_stride, b_stride,
                           d_stride, a_pitch, b_pitch, d_pitch, has_bias, has_sum, after, tf32, alignment);
  }
  DType made() const { return result == DType::kUndefined ? dtype : result; }
  friend bool operator<(const ProductShape& a, const ProductShape& b) { return a.Key() < b.Key(); }
};

// Whether cuBLASLt multiplies elements of this type.
bool CanMultiply(DType type);

struct ProductOperands {
  const std::byte *a = nullptr, *b = nullptr;
  const std::byte *sum = nullptr, *bias = nullptr;
  std::byte* d = nullptr;
  float alpha = 1;
};

// Finds an algorithm for the shape once and remembers it. Throws naming the shape when cuBLASLt has none.
void Multiply(const Device& device, const ProductShape& shape, const ProductOperands& operands);

// The same where rows of D need not begin at multiples of 16 bytes: straight, or through memory where they do, all at
// once or some columns at a time, as is fastest. D may be float32 where A and B are smaller. `columns_of_b`: B has so
// many rows as it lies, zeros behind the last one, which makes an even product of an odd one; 0: as many as columns.
void MultiplyAnywhere(const Device& device, const ProductShape& shape, const ProductOperands& operands,
                      int64_t columns_of_b = 0);
std::vector<KernelSource> ProductSources();

}  // namespace ferry::cuda
