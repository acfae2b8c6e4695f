#include "ops/support/bit_matrix.h"

#include <algorithm>

#include "kernels/gemm.h"

namespace ferry {

void RequireBits(int64_t bits) { Require(bits == 2 || bits == 4 || bits == 8, "bits must be 2, 4 or 8, are ", bits); }

void RequireBlockSize(int64_t block) {
  Require(block >= 16 && block <= (1 << 20) && (block & (block - 1)) == 0,
          "block_size must be a power of two, 16 or more, is ", block);
}

float BitMatrix::ZeroPoint(int64_t row, int64_t at) const {
  if (float_zeros) return float_zeros[row * blocks + at];
  if (!zeros) return static_cast<float>(1 << (bits - 1));
  int64_t place = zeros_across_rows ? row : at, per_byte = 8 / bits;
  const uint8_t* bytes = zeros_across_rows ? zeros : zeros + row * zero_row_bytes;
  return static_cast<float>(bytes[place / per_byte] >> (place % per_byte * bits) & ((1 << bits) - 1));
}

void BitMatrix::Load(int64_t row, float* out) const {
  const uint8_t* bytes = data + row * row_bytes;
  const float* scale = scales + row * blocks;
  auto number = [&](int64_t k) {
    if (bits == 8) return static_cast<float>(bytes[k]);
    if (bits == 4) return static_cast<float>(bytes[k / 2] >> (k % 2 * 4) & 15);
    return static_cast<float>(bytes[k / 4] >> (k % 4 * 2) & 3);
  };
  if (!groups.empty()) {
    for (int64_t k = 0; k < depth; ++k) {
      int64_t at = groups[static_cast<size_t>(k)];
      out[k] = (number(k) - ZeroPoint(row, at)) * scale[at];
    }
    return;
  }
  for (int64_t at = 0, k = 0; at < blocks && k < depth; ++at) {
    const float zero = ZeroPoint(row, at), factor = scale[at];
    for (int64_t end = std::min(k + block, depth); k < end; ++k) out[k] = (number(k) - zero) * factor;
  }
}

void MultiplyByRows(const OpContext& context, const float* a, int64_t count, int64_t rows, int64_t depth,
                    FunctionRef<void(int64_t row, float* out)> load, const float* bias, float* y) {
  constexpr int64_t kPanel = 32;
  int64_t panels = (rows + kPanel - 1) / kPanel;
  context.ParallelFor(panels, 1 + 16384 / std::max<int64_t>(1, kPanel * depth), [&](int64_t begin, int64_t end) {
    std::vector<float> panel(static_cast<size_t>(std::min(kPanel, rows) * depth));
    for (int64_t p = begin; p < end; ++p) {
      int64_t first = p * kPanel, width = std::min(kPanel, rows - first);
      for (int64_t i = 0; i < width; ++i) load(first + i, panel.data() + i * depth);
      Gemm<float>({.m = count,
                   .n = width,
                   .k = depth,
                   .a = a,
                   .a_row = depth,
                   .b = panel.data(),
                   .b_row = 1,
                   .b_col = depth,
                   .c = y + first,
                   .c_row = rows},
                  nullptr);
      for (int64_t m = 0; m < count && bias; ++m)
        for (int64_t i = first; i < first + width; ++i) y[m * rows + i] += bias[i];
    }
  });
}

void MultiplyByRows(const OpContext& context, const float* a, int64_t count, const BitMatrix& matrix, const float* bias,
                    float* y) {
  auto load = [&](int64_t row, float* out) { matrix.Load(row, out); };
  MultiplyByRows(context, a, count, matrix.rows, matrix.depth, load, bias, y);
}

}  // namespace ferry
