#include "tensor/scale.h"

namespace ferry {

void ScaleFloats(const float* from, size_t count, double factor, float* to) {
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(static_cast<double>(from[i]) * factor);
}

}  // namespace ferry
