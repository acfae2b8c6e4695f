// Transposes that move axes of size 1 only: the same elements under another shape.
#pragma once

#include <memory>

#include "engine/provider.h"

namespace ferry {

bool KeepsOrder(const Shape& shape, const std::vector<int64_t>& order);
std::unique_ptr<Kernel> MakeViewKernel(const Operator& transpose, std::vector<int64_t> order);

}  // namespace ferry
