// A device's work recorded as a CUDA graph, which one call starts again.
#pragma once

#include <memory>

#include "engine/provider.h"
#include "providers/cuda/device.h"

namespace ferry::cuda {

// What `work` asks of the device on the calling thread's stream, instead of doing it. Null where something in it cannot
// be recorded; errors of the work itself are met again when it runs by itself.
std::unique_ptr<RecordedWork> RecordGraph(const Device& device, FunctionRef<void()> work);

}  // namespace ferry::cuda
