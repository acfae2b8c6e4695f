#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace ferry {

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  Require(!path.empty() && path.back() != '/' && path.find('\0') == std::string::npos, "'", Printable(path),
          "' is not the name of a file");
  struct stat facts;
  if (lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) FailWith("cannot be written", EISDIR);
  static std::atomic<unsigned> counter{0};
  do {
    temporary_ = Cat(path, ".part-", static_cast<int64_t>(getpid()), "-", counter.fetch_add(1));
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) FailWith("cannot be written", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::FailWith(const char* what, int reason) const {
  ErrorCode code = reason == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  Fail(code, Printable(path_), ": ", what, ": ", std::strerror(reason));
}

void AtomicFile::Write(std::string_view bytes) {
  constexpr size_t kLargestCall = size_t{1} << 30;
  while (!bytes.empty()) {
    ssize_t done = write(descriptor_, bytes.data(), std::min(bytes.size(), kLargestCall));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) FailWith("cannot be written", errno);
    bytes.remove_prefix(static_cast<size_t>(done));
  }
}

void AtomicFile::Finish() {
  if (descriptor_ < 0) return;
  if (fsync(descriptor_) != 0 && errno != EINVAL) FailWith("cannot be written", errno);
  if (close(std::exchange(descriptor_, -1)) != 0) FailWith("cannot be written", errno);
}

void AtomicFile::Commit() {
  Finish();
  CommitUnsynced();
}

void AtomicFile::CommitUnsynced() {
  if (descriptor_ >= 0 && close(std::exchange(descriptor_, -1)) != 0) FailWith("cannot be written", errno);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) FailWith("cannot be put in place", errno);
  temporary_.clear();
}

}  // namespace ferry
