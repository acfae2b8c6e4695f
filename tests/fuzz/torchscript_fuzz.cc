#include <cstdint>

#include "base/error.h"
#include "torch/script/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    ferry::torch::script::ParseSource({reinterpret_cast<const char*>(data), size}, "code.py");
  } catch (const ferry::Error&) {
  }
  return 0;
}
