// A file seen as read-only memory: nothing is read until it is touched, and pages can be given back to the system.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"

namespace ferry {

class MappedFile {
 public:
  // Throws kNotFound or kIo naming the path. Only regular files are taken: a pipe or device could block or never end.
  static std::shared_ptr<MappedFile> Open(const std::string& path);
  // Maps an open descriptor, which stays the caller's; `name` is what errors call it.
  static std::shared_ptr<MappedFile> FromDescriptor(int descriptor, const std::string& name);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }  // null for an empty file
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& name() const { return name_; }
  bool Contains(const void* address) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string name_;
};

// Lets the system drop the pages that lie wholly inside the range; touching them again reads the file again. Memory
// that is not part of a MappedFile is left alone.
void DropPages(const void* data, size_t bytes);
// Uses all bytes in order, piece by piece, and drops the pages of each piece: however many there are, few are in
// memory.
void ReadOnce(std::span<const std::byte> bytes, FunctionRef<void(std::span<const std::byte>)> use);

// The state of the file that the memory is mapped from, '@' and the offset in it: where the text is the same, so are
// the bytes. Empty for memory of other kinds.
std::string PlaceInFile(const void* data);

}  // namespace ferry
