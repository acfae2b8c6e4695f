#include "providers/cpu/provider.h"

namespace ferry {

std::span<const Provider* const> BuiltInProviders() {
  static const Provider* const providers[] = {&MakeCpuProvider()};
  return providers;
}

}  // namespace ferry
