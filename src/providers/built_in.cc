#include "providers/cpu/provider.h"
#include "providers/cuda/provider.h"

namespace ferry {

std::span<const Provider* const> BuiltInProviders() {
  static const Provider* const providers[] = {&MakeCpuProvider(), &MakeCudaProvider()};
  return providers;
}

}  // namespace ferry
