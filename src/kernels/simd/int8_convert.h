// Between floats and bytes: the parts of Int8Kernels that all forms of the product share.
#pragma once

#include "kernels/int8_gemm.h"

namespace ferry::FERRY_ISA {

// Rows that stay bytes.
void Int8PrepareBytes(const uint8_t* from, uint8_t flip, int64_t count, void* to);
void Int8FillBytes(uint8_t value, int64_t count, void* to);
void Int8Range(const float* x, int64_t count, float* low, float* high);
void Int8Quantize(const float* x, int64_t count, float scale, float zero, uint8_t flip, uint8_t* y);
void Int8Dequantize(const uint8_t* x, int64_t count, float scale, int32_t zero, uint8_t flip, float* y);

}  // namespace ferry::FERRY_ISA
