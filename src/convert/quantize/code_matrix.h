// Weights in few bits: nearest codes, ranges searched by their error, and codes chosen one after the other so that
// later ones make up for earlier ones (GPTQ).
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "convert/quantize/scheme.h"

namespace ferry::quantize {

struct CodingRequest {
  int bits = 8;
  bool symmetric = true;
  int64_t block = 0;       // columns that share a scale; 0: all of a row
  bool one_scale = false;  // for the whole matrix
  WeightMethod method = WeightMethod::kSearch;
  std::span<const float> importance = {};  // mean square of what each column is multiplied with; empty: all alike
  std::span<const double> products = {};   // depth × depth means of products of inputs, for kGptq
};

CodedMatrix CodeMatrix(std::span<const float> matrix, int64_t rows, int64_t depth, const CodingRequest& request,
                       ThreadPool& pool);

// Signal to noise in dB, columns weighed by their importance where it is given.
double SnrOf(std::span<const float> matrix, const CodedMatrix& coded, std::span<const float> importance = {});

}  // namespace ferry::quantize
