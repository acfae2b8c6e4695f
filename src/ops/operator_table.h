// The table that CMake makes out of all FERRY_OPERATOR lines.
#pragma once

#include <cstddef>

#include "ops/operator.h"

namespace ferry {

extern const Operator* const kOperatorTable[];
extern const size_t kOperatorTableSize;

}  // namespace ferry
