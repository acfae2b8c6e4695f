// The one way in which files are written. What is at the path decides how: a regular file, or nothing, is replaced at
// once and whole; a symbolic link stays and its target is replaced; a device, pipe or socket is written straight
// through; a folder is an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

struct stat;

namespace ferry {

class AtomicFile {
 public:
  // What a symbolic link at the path is: a name the user chose leads where the user said; a name that was made up may
  // have been put there by somebody else.
  enum class Link : uint8_t { kFollowed, kReplaced };

  // Begins a file in the folder of `path` that has no name yet, or where the file system knows no such files a random
  // one. Throws kNotFound or kIo when that cannot be.
  explicit AtomicFile(const std::string& path, Link link = Link::kFollowed);
  ~AtomicFile();  // without Commit nothing is left behind
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Small pieces are gathered.
  void Write(std::string_view bytes);
  // Puts the file on disk but not yet in its place: what can fail has failed after this.
  void Finish();
  // Moves the file to its place without waiting for the disk: for files whose content is checked when they are read.
  void CommitUnsynced();
  // Moves the file to its place. It has the mode, and where that is allowed the owner, of the file it replaces.
  void Commit();
  // A device, pipe or socket: bytes have gone when they are written, and nothing can lie beside it.
  bool straight_through() const { return folder_ < 0; }

 private:
  [[noreturn]] void FailWith(const char* what, int reason) const;
  void OpenAsFollowed();
  void OpenThrough();
  void OpenBeside(const std::string& folder);
  void TakeModeOf(const struct stat& replaced);
  void Flush();
  void WriteNow(std::string_view bytes);
  void Close();
  void Release();
  void NameUnnamed();

  std::string path_;
  std::string name_;       // of the target in its folder
  std::string temporary_;  // in the same folder; empty for a file without a name
  std::string gathered_;
  int folder_ = -1, descriptor_ = -1;
};

// Lets a write past the limit for the size of files (ulimit -f) fail with a reason instead of ending the process. For
// programs: a library leaves signals to its host.
void ReportFileSizeLimit();

}  // namespace ferry
