#pragma once

#include <cstdint>

namespace ferry {

// A row of floats becomes probabilities; one of −∞ alone becomes zeros.
void FloatSoftmax(float* row, int64_t count);

}  // namespace ferry
