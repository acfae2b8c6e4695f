// The host's processor: runs every operator, and the usual ones with SIMD kernels.
#pragma once

#include "engine/provider.h"

namespace ferry {

const Provider& MakeCpuProvider();

}  // namespace ferry
