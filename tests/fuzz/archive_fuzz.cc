#include <cstdint>

#include "base/error.h"
#include "tests/fuzz/sections.h"
#include "torch/export.h"

// Whole archives, .pt2 and TorchScript: what their entries say of each other, and the lowering of what can be read.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    auto archive =
        ferry::torch::Archive::Open(ferry::testing::ZipOfSections({reinterpret_cast<const char*>(data), size}));
    ferry::torch::ExportArchive(*archive);
  } catch (const ferry::Error&) {
  }
  return 0;
}
