#include <cstdint>

#include "base/error.h"
#include "tests/torch/script_archive.h"
#include "torch/export.h"

// The code of a TorchScript archive: parsed, and what its class M does is run on two weights and two inputs.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ferry;
  using namespace ferry::torch;
  ScriptArchive script{.code = {reinterpret_cast<const char*>(data), size},
                       .weights = {{"weight", {1, 2, 3, 4, 5, 6}}, {"bias", {1, 2, 3}}}};
  ExportOptions options;
  options.input_types = {{"x", DType::kFloat, {Dim::Named("n"), 3}}, {"y", DType::kInt64, {2}}};
  try {
    auto archive = Archive::Open(testing::Share(testing::MakeZip(script.Parts())));
    ExportArchive(*archive, options);
  } catch (const Error&) {
  }
  return 0;
}
