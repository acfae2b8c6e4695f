// Operators that append to a cache and may do so in its own memory.
#pragma once

#include <cstddef>

#include "graph/model.h"

namespace ferry {

// The input that an output holds with new rows behind it, where the two may share their memory; -1 where not.
int CacheInputOf(const Node& node, size_t output);

}  // namespace ferry
