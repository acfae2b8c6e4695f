#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/json.h"

// What parses must come back the same after being written.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    ferry::Json json = ferry::Json::Parse({reinterpret_cast<const char*>(data), size});
    std::string text = json.Dump();
    if (ferry::Json::Parse(text).Dump() != text) std::abort();
  } catch (const ferry::Error&) {
  }
  return 0;
}
