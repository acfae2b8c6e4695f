// How far two results agree beyond the largest difference: direction, last places, decisions, the spread of errors.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tensor/value.h"

namespace ferry {

// Absolute differences by power of ten: kLowest and below, …, kHighest and above.
struct ErrorHistogram {
  static constexpr int kLowest = -12, kHighest = 3;
  static constexpr size_t kBins = kHighest - kLowest + 1;

  int64_t equal = 0;       // no difference at all
  int64_t not_finite = 0;  // NaN or infinity on one side only
  std::array<int64_t, kBins> bins = {};

  int64_t total() const;
};

// Decisions of a classifier: rows of the last dimension whose largest elements are the same.
struct Decisions {
  int64_t rows = 0;
  int64_t same = 0;
};

struct Agreement {
  std::optional<double> cosine;  // of the two as vectors; open when one of them is 0 or not finite
  double max_ulp = 0;            // in last places of the first one's type; over elements that are finite in both
  double mean_ulp = 0;
  std::optional<Decisions> argmax;  // floats of rank 1 to 3 whose last dimension is at least 2
  std::optional<Decisions> top_k;   // the same set of k, where the last dimension has more than k
  ErrorHistogram histogram;

  void Include(const Agreement& other, int64_t elements_before, int64_t elements_of_other);
};

// Floats of any two types with the same shape; anything else agrees in nothing that this measures.
std::optional<Agreement> Agree(const Value& actual, const Value& expected, int64_t k);

}  // namespace ferry
