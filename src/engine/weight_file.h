// Packed weights in a file, so that the next start maps them instead of packing again. The file is a cache: one that is
// cut off, damaged or of another origin is as good as none.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/tensor.h"

namespace ferry {

// Tells bytes apart that differ by accident; a change in one place always shows.
uint64_t Checksum(const void* data, size_t bytes);

class WeightFile {
 public:
  struct Part {
    std::string key;
    Tensor tensor;  // rank 1
  };

  // Null unless the file is there and says `about` itself. Nothing in it is believed before it is checked.
  static std::shared_ptr<WeightFile> Open(const std::string& path, const std::string& about);
  // Throws kIo; what was there before stays until everything is written.
  static void Write(const std::string& path, const std::string& about, const std::vector<Part>& parts);

  // The tensor over the mapped file; undefined unless it is there with this type and size and its checksum is right.
  Tensor Find(const std::string& key, DType dtype, int64_t count) const;
  std::vector<std::string> Keys() const;
  // Whatever is stored under the key; undefined when it is damaged.
  Tensor Take(const std::string& key) const;
  // Once every part has been found right, leaves a note beside the file that says so. As long as the file is unchanged
  // and the machine has not been started anew, nobody needs to look at the checksums again.
  void Vouch() const;

 private:
  struct Entry {
    DType dtype;
    int64_t count;
    size_t offset;
    uint64_t checksum;
  };
  bool Read(const std::string& about);
  bool IsRight(const std::string& key, const Entry& entry) const;

  std::string path_;
  bool vouched_for_ = false;
  mutable std::mutex mutex_;
  mutable std::unordered_set<std::string> right_;  // parts whose checksum was compared
  std::shared_ptr<MappedFile> file_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace ferry
