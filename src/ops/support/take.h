// Chosen positions of one axis, in the order given: Gather, Compress, Unique.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/context.h"

namespace ferry {

// Writes output i of `shape`: for each chosen position (all in range) the part of `data` at it along `axis`.
void WriteTaken(OpContext& context, size_t i, const Tensor& data, size_t axis, const std::vector<int64_t>& chosen,
                const Shape& shape);

}  // namespace ferry
