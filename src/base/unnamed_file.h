// A temporary file without a name: it is gone with its last user, also when the process is killed.
#pragma once

#include <memory>
#include <span>

#include "base/mapped_file.h"

namespace ferry {

class UnnamedFile {
 public:
  // Null where none can be made.
  static std::unique_ptr<UnnamedFile> Make();
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  // The next bytes. Throws kIo.
  void Write(std::span<const std::byte> bytes);
  // What was written so far, as memory that outlives this.
  std::shared_ptr<MappedFile> Map() const;

 private:
  explicit UnnamedFile(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

}  // namespace ferry
