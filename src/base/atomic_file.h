// A file that appears under its name only when it is complete: written beside its place, then moved there.
#pragma once

#include <string>
#include <string_view>

namespace ferry {

class AtomicFile {
 public:
  // Begins a temporary file in the folder of `path`. Throws kIo when the folder cannot be written.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();  // without Commit nothing is left behind
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(std::string_view bytes);
  // Puts the file on disk but not yet in its place: what can fail has failed after this.
  void Finish();
  // Moves the file to its place without waiting for the disk: for files whose content is checked when they are read.
  void CommitUnsynced();
  // Moves the file to its place. A symbolic link there is replaced, not followed.
  void Commit();

 private:
  [[noreturn]] void FailWith(const char* what, int reason) const;

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace ferry
