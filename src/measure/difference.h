// How far a value is from the one it should be: numpy's allclose rule, |actual - expected| <= atol + rtol * |expected|,
// for floats; equality for integers, bools and strings. NaN equals NaN, an infinity equals itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/value.h"

namespace ferry {

struct Tolerance {
  double rtol = 1e-3;
  double atol = 1e-5;
  double integers = 0;  // how far apart integers may be
};

struct Difference {
  // Why the two can't be held against each other at all (type, shape, kind); empty when they can.
  std::string mismatch;
  int64_t elements = 0;
  int64_t outside = 0;  // elements beyond the tolerance
  double max_abs = 0;   // over elements that are finite in both
  double mean_abs = 0;
  double max_rel = 0;  // |actual - expected| / |expected|, over those whose expected value is not 0
  double mean_rel = 0;
  std::string first;  // where and how the first element beyond the tolerance differs

  bool within() const { return mismatch.empty() && outside == 0; }
  std::string Explain() const;  // one line; empty when within
};

// Folds the numbers of one part into those of the whole; `place` says which part the first difference is in.
void Include(Difference& whole, const Difference& part, std::string_view place);

enum class TypeRule : uint8_t {
  kSame,  // element types must be equal
  // Also lets a recording stand for what its file format has no word for: complex numbers for a real value whose last
  // dimension is 2, float or raw bytes' type for bfloat16 and narrower.
  kRecorded,
};

Difference Compare(const Tensor& actual, const Tensor& expected, Tolerance tolerance, TypeRule rule = TypeRule::kSame);
// Containers are compared element by element, and their numbers taken together.
Difference Compare(const Value& actual, const Value& expected, Tolerance tolerance, TypeRule rule = TypeRule::kSame);

}  // namespace ferry
