#include <cstdint>

#include "tensor/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    ferry::Tensor tensor = ferry::ReadNpy({{reinterpret_cast<const std::byte*>(data), size}, nullptr});
    ferry::EncodeNpy(tensor);
  } catch (const ferry::Error&) {
  }
  return 0;
}
