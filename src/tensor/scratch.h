// Large tensors that are made once, front to back, and then only read: their elements go to a temporary file that has
// no name any more and is mapped, so that they need no memory of their own.
#pragma once

#include <memory>
#include <vector>

#include "base/unnamed_file.h"
#include "tensor/tensor.h"

namespace ferry {

class ScratchTensor {
 public:
  // Tensors of fewer bytes than `smallest_file` stay in memory, as do all where no file can be made.
  static constexpr size_t kSmallestFile = size_t{1} << 20;
  ScratchTensor(DType type, Shape shape, size_t smallest_file = kSmallestFile);
  ScratchTensor(const ScratchTensor&) = delete;
  ScratchTensor& operator=(const ScratchTensor&) = delete;

  // The next bytes, in order; all of them must be given before Finish.
  void Append(const void* data, size_t bytes);
  Tensor Finish();

 private:
  void WriteOut();

  DType type_;
  Shape shape_;
  size_t written_ = 0;
  std::unique_ptr<UnnamedFile> file_;  // small tensors, and large ones where no file can be made, stay in memory
  std::vector<std::byte> pending_;     // of the file, not yet written
  Tensor in_memory_;
};

}  // namespace ferry
