#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "graph/equal.h"
#include "onnx/reader.h"
#include "onnx/writer.h"

// Whatever reads as a model must come back the same after being written.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ferry::Model;
  auto bytes = std::make_shared<const std::string>(reinterpret_cast<const char*>(data), size);
  ferry::ReadOptions options{.load_external = false, .folder = {}};
  Model first;
  try {
    first = ferry::ReadModelFromMemory(std::as_bytes(std::span(*bytes)), bytes, options);
  } catch (const ferry::Error&) {
    return 0;
  }
  auto written = std::make_shared<const std::string>(ferry::SerializeModel(first));
  Model second = ferry::ReadModelFromMemory(std::as_bytes(std::span(*written)), written, options);
  std::string difference;
  if (!ferry::EqualModels(first, second, &difference)) {
    std::fprintf(stderr, "%s\n", difference.c_str());
    std::abort();
  }
  return 0;
}
