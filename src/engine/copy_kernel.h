// Copies a tensor into the memory space where it is read next.
#pragma once

#include <memory>

#include "engine/provider.h"

namespace ferry {

std::unique_ptr<Kernel> MakeCopyKernel();

}  // namespace ferry
