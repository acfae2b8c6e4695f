#include "base/unnamed_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace ferry {

std::unique_ptr<UnnamedFile> UnnamedFile::Make() {
  std::error_code problem;
  std::string path = (std::filesystem::temp_directory_path(problem) / "ferry-XXXXXX").string();
  if (problem) return nullptr;
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  unlink(path.c_str());
  return std::unique_ptr<UnnamedFile>(new UnnamedFile(descriptor));
}

UnnamedFile::~UnnamedFile() { close(descriptor_); }

void UnnamedFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = write(descriptor_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) Fail(ErrorCode::kIo, "a temporary file cannot be written: ", std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

std::shared_ptr<MappedFile> UnnamedFile::Map() const {
  return MappedFile::FromDescriptor(descriptor_, "a temporary file");
}

}  // namespace ferry
