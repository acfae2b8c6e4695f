// A matrix whose rows are numbers of 2, 4 or 8 bits, low bits first, in blocks that have a scale and a zero point each:
// the weights of MatMulNBits and QMoE.
#pragma once

#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "ops/context.h"

namespace ferry {

struct BitMatrix {
  int64_t rows = 0, depth = 0, bits = 4, block = 32, blocks = 1;
  const uint8_t* data = nullptr;
  int64_t row_bytes = 0;
  const float* scales = nullptr;  // [rows, blocks]

  // Zero points: packed like the weights, or floats; 2^(bits − 1) when neither is given.
  const uint8_t* zeros = nullptr;
  int64_t zero_row_bytes = 0;
  bool zeros_across_rows = false;  // one block: rows follow each other in the bytes
  const float* float_zeros = nullptr;

  std::vector<int64_t> groups;  // the block of each depth, when not in order

  // Row `row` as floats.
  void Load(int64_t row, float* out) const;

 private:
  float ZeroPoint(int64_t row, int64_t at) const;
};

// Attributes bits and block sizes, checked: bits are 2, 4 or 8, a block is a power of two from 16 on.
void RequireBits(int64_t bits);
void RequireBlockSize(int64_t block);

// y[m, n] = Σ a[m, k] · matrix[n, k] + bias[n]; the bias may be null.
void MultiplyByRows(const OpContext& context, const float* a, int64_t count, const BitMatrix& matrix, const float* bias,
                    float* y);
// The same for rows that `load` gives as floats.
void MultiplyByRows(const OpContext& context, const float* a, int64_t count, int64_t rows, int64_t depth,
                    FunctionRef<void(int64_t row, float* out)> load, const float* bias, float* y);

}  // namespace ferry
