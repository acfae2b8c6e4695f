#include "tensor/scratch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/mapped_file.h"

namespace ferry {
namespace {

constexpr size_t kWrittenAtOnce = size_t{1} << 20;

// Made and unlinked at once: it is gone with its last user, also when the process is killed.
int OpenUnnamedFile() {
  std::error_code problem;
  std::string path = (std::filesystem::temp_directory_path(problem) / "ferry-XXXXXX").string();
  if (problem) return -1;
  int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor >= 0) unlink(path.c_str());
  return descriptor;
}

}  // namespace

ScratchTensor::ScratchTensor(DType type, Shape shape, size_t smallest_file) : type_(type), shape_(std::move(shape)) {
  if (StorageBytes(type_, shape_.ElementCount()) >= smallest_file) descriptor_ = OpenUnnamedFile();
  if (descriptor_ < 0) in_memory_ = Tensor(type_, shape_);
}

ScratchTensor::~ScratchTensor() {
  if (descriptor_ >= 0) close(descriptor_);
}

void ScratchTensor::Append(const void* data, size_t bytes) {
  if (descriptor_ < 0) {
    Require(bytes <= in_memory_.bytes() - written_, "more bytes than the tensor has");
    std::memcpy(in_memory_.mutable_raw() + written_, data, bytes);
    written_ += bytes;
    return;
  }
  auto* begin = static_cast<const std::byte*>(data);
  pending_.insert(pending_.end(), begin, begin + bytes);
  written_ += bytes;
  if (pending_.size() >= kWrittenAtOnce) WriteOut();
}

void ScratchTensor::WriteOut() {
  for (size_t at = 0; at < pending_.size();) {
    ssize_t done = write(descriptor_, pending_.data() + at, pending_.size() - at);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) Fail(ErrorCode::kIo, "a temporary file cannot be written: ", std::strerror(errno));
    at += static_cast<size_t>(done);
  }
  pending_.clear();
}

Tensor ScratchTensor::Finish() {
  if (written_ != StorageBytes(type_, shape_.ElementCount()))
    Fail(ErrorCode::kInternal, "a scratch tensor is not full");
  if (descriptor_ < 0) return in_memory_;
  WriteOut();
  std::shared_ptr<MappedFile> file = MappedFile::FromDescriptor(descriptor_, "a temporary file");
  return Tensor::Borrow(type_, shape_, file->data(), file);
}

}  // namespace ferry
