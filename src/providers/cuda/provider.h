// NVIDIA's GPUs: the model stays on the device, weights are copied there once.
#pragma once

#include "engine/provider.h"

namespace ferry {

const Provider& MakeCudaProvider();

}  // namespace ferry
