#include <cstdint>

#include "base/error.h"
#include "torch/state_dict.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    ferry::torch::ReadStateDict(ferry::SharedBytes{{reinterpret_cast<const std::byte*>(data), size}, nullptr});
  } catch (const ferry::Error&) {
  }
  return 0;
}
