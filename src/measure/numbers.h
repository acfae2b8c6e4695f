// What numbers a tensor holds: seen in one pass that keeps up with memory, since it is made over every weight.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace ferry {

// What the elements of a floating-point value are like. Least and largest are over finite elements.
struct Numbers {
  int64_t count = 0;
  int64_t nans = 0, infinities = 0;
  double least = 0, largest = 0;
  double smallest = 0;         // the smallest magnitude above 0; 0 when there is none
  int64_t above_float16 = 0;   // finite, and infinite in float16
  int64_t below_float16 = 0;   // not 0, and 0 in float16
  int64_t below_bfloat16 = 0;  // not 0, and 0 in bfloat16
  int64_t masks = 0;           // among those above: at the negative end of float, as attention masks are
};

// Of a tensor of real numbers or bools. The pool, where there is one, shares the work.
Numbers Count(const Tensor& tensor, ThreadPool* pool = nullptr);

}  // namespace ferry
