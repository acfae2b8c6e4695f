#include <cstdint>

#include "base/error.h"
#include "tensor/npz.h"
#include "tests/fuzz/sections.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    ferry::ReadNpz(ferry::testing::ZipOfSections({reinterpret_cast<const char*>(data), size}));
  } catch (const ferry::Error&) {
  }
  return 0;
}
