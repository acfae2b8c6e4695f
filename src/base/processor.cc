#include "base/processor.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace ferry {

bool HasArmDotProducts() {
#if defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kDotProducts = 1ul << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kDotProducts) != 0;
#elif defined(__aarch64__) && defined(__APPLE__)
  return true;  // every one of them since the first
#else
  return false;
#endif
}

}  // namespace ferry
