// Products of bytes where the instruction set can multiply and add pairs of them only with saturation (AVX2).
#pragma once

#include "kernels/int8_gemm.h"

namespace ferry::FERRY_ISA {

inline constexpr int64_t kBytesUnit = 4;
inline constexpr int kBytesTileRows = 4;
// Of a number: widened, and its share of a list.
inline constexpr int64_t kBytesScratch = 3;

// The numbers of the bits that are set, a byte each, for every byte.
struct SetBits {
  uint64_t of[256];
  constexpr SetBits() : of{} {
    for (uint64_t bits = 0; bits < 256; ++bits)
      for (uint64_t i = 0, count = 0; i < 8; ++i)
        if (bits >> i & 1) of[bits] |= i << 8 * count++;
  }
};
inline constexpr SetBits kSetBits;

// Of rows that are widened: four depths become pairs of the even and of the odd ones.
void MultiplyWidened(const ferry::Int8Product& product);
// Of at most kBlockRows rows of bytes, where it pays to leave out what is 0; else it says no.
bool MultiplySparse(const ferry::Int8Product& product);
void MultiplyBytes(const ferry::Int8Product& product);

}  // namespace ferry::FERRY_ISA
