// Weights times a factor.
#pragma once

#include <cstddef>

namespace ferry {

// to[i] = from[i] · factor, multiplied in double.
void ScaleFloats(const float* from, size_t count, double factor, float* to);

}  // namespace ferry
