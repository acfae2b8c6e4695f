// Plans: the container, and what the GPU's provider keeps in it. Bytes are tried as they are and with a right checksum.
#include <cstdint>
#include <string>

#include "engine/plan_file.h"
#include "engine/weight_file.h"
#include "onnx/reader.h"
#include "providers/cuda/state.h"

namespace {

void Read(std::string_view bytes) {
  try {
    const ferry::PlanFile plan = ferry::ParsePlan(bytes, nullptr);
    ferry::ToBytes(plan);
    for (const std::string& state : plan.states) ferry::cuda::ParseState(state);
  } catch (const ferry::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  Read(bytes);
  const uint64_t sum = ferry::Checksum(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  Read(bytes);
  try {
    ferry::cuda::ParseState({reinterpret_cast<const char*>(data), size});
  } catch (const ferry::Error&) {
  }
  return 0;
}
