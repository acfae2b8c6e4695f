// Loops over floats, vectorised: arithmetic of two operands, functions of one, and folds of many numbers into one.
#pragma once

#include <stdint.h>

namespace ferry {

enum class BinaryKind : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kMax, kMin };  // NaN wins in the last two
enum class UnaryKind : uint8_t { kNegate, kAbs, kSqrt, kReciprocal, kSquare, kCube, kLog, kFloor, kCeil };

struct ElementwiseKernels {
  // y = a ∘ b; an operand that does not advance is one number for the whole run. y may be a or b.
  void (*binary)(BinaryKind kind, const float* a, bool a_advances, const float* b, bool b_advances, float* y,
                 int64_t count);
  void (*unary)(UnaryKind kind, const float* x, float* y, int64_t count);
  // Short sums in float, their sum in double: as exact as the result can hold.
  double (*sum)(const float* x, int64_t count);
  double (*squares)(const float* x, float center, int64_t count);  // Σ (x − center)²
  // y = (x − center) · factor + offset; y may be x.
  void (*standardize)(const float* x, float center, float factor, float offset, float* y, int64_t count);
  // The largest or smallest of count > 0 numbers; NaN wins.
  float (*extreme)(BinaryKind kind, const float* x, int64_t count);
  // The same for each of `columns` over rows that lie `columns` apart.
  void (*extremes)(BinaryKind kind, const float* x, int64_t rows, int64_t columns, float* y);
  // The bits of float16 as floats, and floats rounded to them: to nearest, ties to even.
  void (*widen_halves)(const uint16_t* x, float* y, int64_t count);
  void (*narrow_to_halves)(const float* x, uint16_t* y, int64_t count);
};

const ElementwiseKernels& BestElementwiseKernels();

}  // namespace ferry
