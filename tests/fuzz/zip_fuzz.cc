#include <cstdint>

#include "base/error.h"
#include "base/zip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    ferry::SharedBytes file{{reinterpret_cast<const std::byte*>(data), size}, nullptr};
    auto archive = ferry::ZipArchive::Open(file, {.inflated_entry = 1 << 20, .inflated_archive = 1 << 22});
    for (const ferry::ZipEntry& entry : archive->entries()) archive->Read(entry);
  } catch (const ferry::Error&) {
  }
  return 0;
}
