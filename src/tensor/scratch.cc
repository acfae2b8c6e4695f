#include "tensor/scratch.h"

#include <cstring>

#include "base/error.h"

namespace ferry {
namespace {

constexpr size_t kWrittenAtOnce = size_t{1} << 20;

}  // namespace

ScratchTensor::ScratchTensor(DType type, Shape shape, size_t smallest_file) : type_(type), shape_(std::move(shape)) {
  if (StorageBytes(type_, shape_.ElementCount()) >= smallest_file) file_ = UnnamedFile::Make();
  if (!file_) in_memory_ = Tensor(type_, shape_);
}

void ScratchTensor::Append(const void* data, size_t bytes) {
  if (!file_) {
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
  file_->Write(pending_);
  pending_.clear();
}

Tensor ScratchTensor::Finish() {
  if (written_ != StorageBytes(type_, shape_.ElementCount()))
    Fail(ErrorCode::kInternal, "a scratch tensor is not full");
  if (!file_) return in_memory_;
  WriteOut();
  std::shared_ptr<MappedFile> file = file_->Map();
  return Tensor::Borrow(type_, shape_, file->data(), file);
}

}  // namespace ferry
