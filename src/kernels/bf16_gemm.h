// Products with weights kept as bfloat16: half the memory and half the bytes to read. Rows of A are rounded to bfloat16
// on the way, sums are float. Every product of two bfloat16 is exact in float, so that all instruction sets give the
// same bits; only AVX512_BF16 takes numbers below 2^-126 for zero.
#pragma once

#include "kernels/packed_gemm.h"

namespace ferry {

// Bytes of working memory that a product needs: rows of A made ready, within the second-level cache.
inline constexpr int64_t kBf16Scratch = 192 * 1024;

// Panels of kPanelWidth columns; two depths lie side by side, the last one beside zero where their number is odd.
// Elements that the packed form of a [depth × columns] matrix takes.
inline int64_t PackedBf16Size(int64_t depth, int64_t columns) { return PackedSize((depth + 1) / 2 * 2, columns); }
// b[k * row_stride + n * column_stride], rounded to the nearest, halves to even.
void PackBf16Matrix(const float* b, int64_t depth, int64_t columns, int64_t row_stride, int64_t column_stride,
                    uint16_t* packed);

struct Bf16Kernels {
  const char* isa;
  int64_t best_rows;  // rows of a tile at full speed: cut work into multiples of it
  // What GemmKernels have, with panels of bfloat16; gemm.packed is not looked at. `scratch` has kBf16Scratch bytes.
  void (*gathered)(const GatheredGemm& gemm, const uint16_t* packed, void* scratch);
  void (*plain)(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const uint16_t* packed, int64_t columns,
                float* c, int64_t c_stride, const GemmEpilogue& epilogue, void* scratch);
  // A panel of floats, depth after depth, to one of bfloat16.
  void (*narrow)(const float* panel, int64_t depth, uint16_t* to);
};

const Bf16Kernels& BestBf16Kernels();
// Those that multiply pairs of bfloat16 in one instruction; null where this CPU has none.
const Bf16Kernels* NativeBf16Kernels();

}  // namespace ferry
