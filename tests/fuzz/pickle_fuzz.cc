#include <cstdint>

#include "base/error.h"
#include "torch/pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    ferry::torch::Pickle::Load({reinterpret_cast<const char*>(data), size});
  } catch (const ferry::Error&) {
  }
  return 0;
}
