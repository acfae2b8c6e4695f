#include <cstdint>

#include "base/error.h"
#include "base/json.h"
#include "torch/export.h"
#include "torch/pt2_graph.h"

// The JSON graph of a .pt2 archive: reading it, and lowering what can be read.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    ferry::Json json = ferry::Json::Parse({reinterpret_cast<const char*>(data), size}, {.depth = 100});
    ferry::torch::ExportProgram(ferry::torch::ParseProgram(json));
  } catch (const ferry::Error&) {
  }
  return 0;
}
