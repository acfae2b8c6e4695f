#include "base/confined_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/memory_files.h"

namespace ferry {
namespace {

template <class... Parts>
[[noreturn]] void Refuse(const Parts&... parts) {
  Fail(ErrorCode::kIo, parts...);
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

class FolderWalk {
 public:
  FolderWalk(const std::string& folder, std::string_view folder_name) : folder_name_(folder_name) {
    folders_.emplace_back(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folders_.back().number() < 0) Refuse("is in ", folder_name, ", which cannot be opened: ", std::strerror(errno));
  }

  Descriptor OpenFile(const std::string& location) {
    PushComponents(location);
    while (!pending_.empty()) {
      std::string name = std::move(pending_.back());
      pending_.pop_back();
      if (name == ".." && folders_.size() == 1) Leaves();
      if (name == "..") {
        folders_.pop_back();
      } else if (std::string target; IsLink(name, target)) {
        Follow(target);
      } else if (pending_.empty()) {
        return OpenLast(name);
      } else {
        OpenSubfolder(name);
      }
    }
    Refuse("is a folder, not a file");
  }

 private:
  static constexpr int kMostLinks = 16;

  void PushComponents(std::string_view path) {
    std::vector<std::string> parts = SplitText(path, '/');
    for (size_t i = parts.size(); i-- > 0;)
      if (!parts[i].empty() && parts[i] != ".") pending_.push_back(std::move(parts[i]));
  }

  [[noreturn]] void Leaves() const { Refuse("leads out of ", folder_name_); }
  [[noreturn]] static void CannotBeOpened(int reason) { Refuse("cannot be opened: ", std::strerror(reason)); }

  bool IsLink(const std::string& name, std::string& target) {
    char buffer[4096];
    ssize_t length = readlinkat(folders_.back().number(), name.c_str(), buffer, sizeof(buffer));
    if (length < 0) {
      if (errno == EINVAL) return false;
      CannotBeOpened(errno);
    }
    target.assign(buffer, static_cast<size_t>(length));
    return true;
  }

  void Follow(const std::string& target) {
    if (++links_ > kMostLinks) Refuse("is a chain of too many links");
    if (target.empty() || target[0] == '/') Leaves();
    PushComponents(target);
  }

  void OpenSubfolder(const std::string& name) {
    Descriptor next(openat(folders_.back().number(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (next.number() < 0) CannotBeOpened(errno);
    folders_.push_back(std::move(next));
  }

  Descriptor OpenLast(const std::string& name) {
    Descriptor file(openat(folders_.back().number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.number() < 0) CannotBeOpened(errno);
    return file;
  }

  const std::string_view folder_name_;
  std::vector<Descriptor> folders_;
  std::vector<std::string> pending_;  // components still to walk, the next one last
  int links_ = 0;
};

void CheckKind(int descriptor) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) Refuse("cannot be looked at: ", std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) Refuse("is not a regular file");
  if (facts.st_nlink > 1)
    Refuse("has ", static_cast<uint64_t>(facts.st_nlink),
           " hard links, so it may be a file from elsewhere; copy it to use it");
}

}  // namespace

std::shared_ptr<MappedFile> MapConfinedFile(const std::string& folder, const std::string& location,
                                            std::string_view folder_name) {
  if (location.empty() || location[0] == '/' || location.find('\0') != std::string::npos)
    Refuse("is not a path below ", folder_name);
  // The folders of files in memory are parts of their names: nothing leads out of them but "..".
  const std::string path = Cat(folder, "/", location);
  if (location.find("..") == std::string::npos && !MemoryFileIdentity(path).empty()) return MappedFile::Open(path);
  Descriptor file = FolderWalk(folder, folder_name).OpenFile(location);
  CheckKind(file.number());
  return MappedFile::FromDescriptor(file.number(), location);
}

}  // namespace ferry
