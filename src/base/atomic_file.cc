#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace ferry {
namespace {

#ifdef O_PATH
constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;  // may be written without being readable
#else
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
#endif
constexpr size_t kGather = 64 << 10, kLargestCall = size_t{1} << 30;

std::string FolderOf(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string NameIn(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Links there, /dev/stdout's among them, stand for open files and not for places where a file could be put.
bool IsInProc(const std::string& path) { return path.rfind("/proc/", 0) == 0; }

// What a link leads to, link by link, whether or not there is anything. Empty with errno where that cannot be said.
std::string FollowLinks(std::string path) {
  constexpr int kMostLinks = 40;
  for (int links = 0; links < kMostLinks; ++links) {
    if (IsInProc(path)) return path;
    char target[4096];
    ssize_t length = readlink(path.c_str(), target, sizeof target);
    if (length < 0) return errno == EINVAL || errno == ENOENT ? path : std::string();
    std::string next(target, static_cast<size_t>(length));
    path = next[0] == '/' ? next : FolderOf(path) + "/" + next;
  }
  errno = ELOOP;
  return {};
}

bool IsSameFile(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

std::string RandomName() {
  unsigned char bytes[12] = {};
  if (getentropy(bytes, sizeof bytes) != 0) Fail(ErrorCode::kIo, "no random numbers: ", std::strerror(errno));
  std::string name = ".ferry-";
  for (unsigned char byte : bytes) (name += "0123456789abcdef"[byte >> 4]) += "0123456789abcdef"[byte & 15];
  return name + ".part";
}

std::string DescriptorPath(int descriptor) { return Cat("/proc/self/fd/", descriptor); }

// A file that vanishes with the process unless it gets a name; -1 where the file system or the machine has none.
int OpenUnnamed(int folder, mode_t mode) {
#ifdef O_TMPFILE
  int descriptor = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (descriptor < 0 || access(DescriptorPath(descriptor).c_str(), F_OK) == 0) return descriptor;
  close(descriptor);
#else
  static_cast<void>(folder), static_cast<void>(mode);
#endif
  return -1;
}

#ifdef __EMSCRIPTEN__
int ConnectTo(const std::string&) {
  errno = ENOTSUP;  // no file of a page is a socket
  return -1;
}
#else
int ConnectTo(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  if (descriptor < 0) return -1;
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return descriptor;
  int reason = errno;
  close(descriptor);
  errno = reason;
  return -1;
}
#endif

}  // namespace

AtomicFile::AtomicFile(const std::string& path, Link link) : path_(path) {
  Require(!path.empty() && path.back() != '/' && path.find('\0') == std::string::npos, "'", Printable(path),
          "' is not the name of a file");
  try {
    struct stat there = {};
    if (link == Link::kReplaced && lstat(path.c_str(), &there) == 0 && S_ISLNK(there.st_mode)) {
      name_ = NameIn(path);
      OpenBeside(FolderOf(path));
    } else {
      OpenAsFollowed();
    }
  } catch (...) {
    Release();
    throw;
  }
}

AtomicFile::~AtomicFile() { Release(); }

void AtomicFile::Release() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  if (!temporary_.empty()) unlinkat(folder_, temporary_.c_str(), 0);
  if (folder_ >= 0) close(std::exchange(folder_, -1));
}

void AtomicFile::FailWith(const char* what, int reason) const {
  ErrorCode code = reason == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  Fail(code, Printable(path_), ": ", what, ": ", std::strerror(reason));
}

void AtomicFile::OpenAsFollowed() {
  struct stat there = {}, followed = {};
  bool exists = stat(path_.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) FailWith("cannot be written", errno);
  if (exists && S_ISDIR(there.st_mode)) FailWith("cannot be written", EISDIR);
  std::string target = FollowLinks(path_);
  if (target.empty()) FailWith("cannot be written", errno);
  name_ = NameIn(target);
  bool leads_there = !IsInProc(target) && !name_.empty() &&
                     (!exists || (stat(target.c_str(), &followed) == 0 && IsSameFile(there, followed)));
  if (exists && (!S_ISREG(there.st_mode) || !leads_there))
    OpenThrough();
  else
    OpenBeside(FolderOf(target));
}

void AtomicFile::OpenThrough() {
  descriptor_ = open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (descriptor_ < 0 && errno == ENXIO) descriptor_ = ConnectTo(path_);
  if (descriptor_ < 0) FailWith("cannot be written", errno);
}

// Everything happens in a folder held open: what others do to the path meanwhile leads nowhere else.
void AtomicFile::OpenBeside(const std::string& folder) {
  folder_ = open(folder.c_str(), kFolderFlags);
  if (folder_ < 0) FailWith("cannot be written", errno);
  struct stat replaced = {};
  bool replaces = fstatat(folder_, name_.c_str(), &replaced, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(replaced.st_mode);
  mode_t mode = replaces ? 0600 : 0666;
  descriptor_ = OpenUnnamed(folder_, mode);
  while (descriptor_ < 0) {
    temporary_ = RandomName();
    descriptor_ = openat(folder_, temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (descriptor_ >= 0) break;
    temporary_.clear();
    if (errno != EEXIST) FailWith("cannot be written", errno);
  }
  if (replaces) TakeModeOf(replaced);
}

void AtomicFile::TakeModeOf(const struct stat& replaced) {
  struct stat own = {};
  if (fstat(descriptor_, &own) != 0) FailWith("cannot be written", errno);
  mode_t mode = replaced.st_mode & 0777;
  // What the old group may must not become what another group may.
  if (own.st_gid != replaced.st_gid && fchown(descriptor_, static_cast<uid_t>(-1), replaced.st_gid) != 0)
    mode &= ~mode_t{070} | ((mode & 07) << 3);
  [[maybe_unused]] bool has_owner =  // only root may give files away
      own.st_uid == replaced.st_uid || fchown(descriptor_, replaced.st_uid, static_cast<gid_t>(-1)) == 0;
  if (fchmod(descriptor_, mode) != 0) FailWith("cannot be written", errno);
}

void AtomicFile::Write(std::string_view bytes) {
  if (gathered_.size() + bytes.size() > kGather) Flush();
  if (bytes.size() > kGather)
    WriteNow(bytes);
  else
    gathered_ += bytes;
}

void AtomicFile::Flush() {
  WriteNow(gathered_);
  gathered_.clear();
}

void AtomicFile::WriteNow(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t done = write(descriptor_, bytes.data(), std::min(bytes.size(), kLargestCall));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) FailWith("cannot be written", errno);
    bytes.remove_prefix(static_cast<size_t>(done));
  }
}

void AtomicFile::Close() {
  if (descriptor_ >= 0 && close(std::exchange(descriptor_, -1)) != 0) FailWith("cannot be written", errno);
}

void AtomicFile::Finish() {
  if (descriptor_ < 0) return;
  Flush();
  bool cannot_sync = fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS;
  if (cannot_sync) FailWith("cannot be written", errno);
  if (!temporary_.empty()) Close();
}

void AtomicFile::Commit() {
  Finish();
  CommitUnsynced();
}

// Only a name that is free can be given, so a file that is to be replaced needs a second one for a moment.
void AtomicFile::NameUnnamed() {
  std::string unnamed = DescriptorPath(descriptor_), name = name_;
  while (linkat(AT_FDCWD, unnamed.c_str(), folder_, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    if (errno != EEXIST) FailWith("cannot be put in place", errno);
    name = RandomName();
  }
  if (name != name_) temporary_ = name;
}

void AtomicFile::CommitUnsynced() {
  if (descriptor_ >= 0) Flush();
  if (!straight_through() && temporary_.empty() && descriptor_ >= 0) NameUnnamed();
  Close();
  if (temporary_.empty()) return;
  if (renameat(folder_, temporary_.c_str(), folder_, name_.c_str()) != 0) FailWith("cannot be put in place", errno);
  temporary_.clear();
}

void ReportFileSizeLimit() { std::signal(SIGXFSZ, SIG_IGN); }

}  // namespace ferry
