// What the kernels share whose instruction multiplies and adds four bytes at once. `Tiles` has
// MultiplyRows(product, runs, row_at), where row_at(row) is where a row begins.
#pragma once

#include "kernels/int8_gemm.h"
#include "kernels/simd/int8_convert.h"
#include "kernels/simd/target.h"

namespace ferry::FERRY_ISA {

inline constexpr int64_t kUnit = 4;
inline int64_t Padded(int64_t depth) { return (depth + kUnit - 1) / kUnit * kUnit; }

template <class Tiles>
void MultiplyFours(const ferry::Int8Product& product) {
  const int64_t padded = Padded(product.depth);
  const auto* a = static_cast<const uint8_t*>(product.a);
  Tiles::MultiplyRows(product, {nullptr, 1, padded, 0}, [=](int64_t row) { return a + row * padded; });
}

template <class Tiles>
void MultiplyRunsOfFours(const ferry::Int8Product& product, const ferry::Int8Runs& runs) {
  Tiles::MultiplyRows(product, runs, [&](int64_t row) { return runs.at[row]; });
}

template <class Tiles>
constexpr Int8Kernels KernelsOfFours(int tile_rows) {
  Int8Kernels kernels{};
  kernels.depth_unit = kernels.depth_multiple = kUnit;
  kernels.element_bytes = 1;
  kernels.tile_rows = tile_rows;
  kernels.prepare = Int8PrepareBytes;
  kernels.fill = Int8FillBytes;
  kernels.multiply = MultiplyFours<Tiles>;
  kernels.multiply_runs = MultiplyRunsOfFours<Tiles>;
  kernels.range = Int8Range;
  kernels.quantize = Int8Quantize;
  kernels.dequantize = Int8Dequantize;
  return kernels;
}

}  // namespace ferry::FERRY_ISA
