#include "ops/support/float_softmax.h"

#include <algorithm>
#include <cmath>

#include "kernels/row_kernels.h"

namespace ferry {

void FloatSoftmax(float* row, int64_t count) {
  if (std::all_of(row, row + count, [](float x) { return x == -HUGE_VALF; })) {
    std::fill_n(row, count, 0.0f);
    return;
  }
  BestRowKernels().softmax({.x = row, .y = row, .count = count});
}

}  // namespace ferry
