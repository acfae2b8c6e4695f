// Products of bytes where the instruction set can multiply and add pairs of them only with saturation (AVX2).
#pragma once

#include "kernels/int8_gemm.h"

namespace ferry::FERRY_ISA {

inline constexpr int64_t kBytesUnit = 4;
inline constexpr int kBytesTileRows = 4;
// Of rows that are widened: four depths become pairs of the even and of the odd ones.
void MultiplyWidened(const ferry::Int8Product& product);
void MultiplyBytes(const ferry::Int8Product& product);

}  // namespace ferry::FERRY_ISA
