#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.h"
#include "onnx/value_file.h"

namespace {

// The kinds a value file can be; the first byte of the input chooses.
const ferry::Type& TypeFor(uint8_t choice) {
  using ferry::Type;
  static const Type tensor = Type::Tensor(ferry::DType::kFloat);
  static const Type kinds[] = {tensor, Type::SequenceOf(tensor), Type::OptionalOf(Type::SequenceOf(tensor)),
                               Type::MapOf(ferry::DType::kInt64, tensor), Type::SparseTensor(ferry::DType::kFloat)};
  return kinds[choice % std::size(kinds)];
}

ferry::Value Read(const std::string& bytes, const ferry::Type& type) {
  return ferry::ReadValueFromMemory(std::as_bytes(std::span(bytes)), nullptr, &type);
}

}  // namespace

// Whatever reads as a value can be written, and what was written once comes back the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ferry::Type& type = TypeFor(data[0]);
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    ferry::Value value = Read(bytes, type);
    std::string written = ferry::SerializeValue(value, "v", &type);
    if (!ferry::Identical(value, Read(written, type))) std::abort();
  } catch (const ferry::Error&) {
  }
  return 0;
}
