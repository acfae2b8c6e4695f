#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/memory_files.h"

namespace ferry {
namespace {

// Small files are read instead, so that nothing that happens to them later matters.
constexpr size_t kReadWhole = 64 << 10;

void* ReadWhole(int descriptor, size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return memory;
  size_t done = 0;
  while (done < size) {
    ssize_t count = pread(descriptor, static_cast<char*>(memory) + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {  // 0: cut off since its size was asked for
      int reason = count < 0 ? errno : EIO;
      munmap(memory, size);
      errno = reason;
      return MAP_FAILED;
    }
    done += static_cast<size_t>(count);
  }
  return memory;
}

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Every live mapping, so that pages can be given back by address without knowing whose they are.
struct LiveMappings {
  struct Mapping {
    uintptr_t end;
    std::string state;  // of the file
  };
  std::mutex mutex;
  std::map<uintptr_t, Mapping> by_begin;

  // Null when the address is in none.
  const std::pair<const uintptr_t, Mapping>* Find(uintptr_t address) const {
    auto after = by_begin.upper_bound(address);
    if (after == by_begin.begin() || address >= std::prev(after)->second.end) return nullptr;
    return &*std::prev(after);
  }

  static LiveMappings& All() {
    static LiveMappings* all = new LiveMappings;  // outlives every file, also those closed at exit
    return *all;
  }
};

std::string StateOf(const struct stat& facts) {
  auto time = [](const timespec& moment) { return Cat(moment.tv_sec, ".", moment.tv_nsec); };
  return Cat(facts.st_dev, ":", facts.st_ino, ":", facts.st_size, ":", time(facts.st_mtim), ":", time(facts.st_ctim));
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

}  // namespace

std::shared_ptr<MappedFile> MappedFile::Open(const std::string& path) {
  Require(path.find('\0') == std::string::npos, "the path '", Printable(path), "' contains a zero byte");
  if (std::optional<std::span<const std::byte>> in_memory = TakeMemoryFile(path)) {
    std::shared_ptr<MappedFile> file(new MappedFile);
    file->name_ = path;
    file->data_ = in_memory->data();
    file->size_ = in_memory->size();
    return file;
  }
  // Without O_NONBLOCK, opening a pipe would wait for a writer before its kind can be looked at.
  Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) {
    int reason = errno;
    if (reason == ENOENT || reason == ENOTDIR) Fail(ErrorCode::kNotFound, Printable(path), ": no such file");
    Fail(ErrorCode::kIo, Printable(path), ": cannot be opened: ", std::strerror(reason));
  }
  return FromDescriptor(file.number, path);
}

std::shared_ptr<MappedFile> MappedFile::FromDescriptor(int descriptor, const std::string& name) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) Fail(ErrorCode::kIo, Printable(name), ": ", std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) Fail(ErrorCode::kIo, Printable(name), ": is ", KindOf(facts.st_mode), ", not a file");
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->name_ = name;
  if (static_cast<uint64_t>(facts.st_size) > PTRDIFF_MAX)
    Fail(ErrorCode::kLimit, Printable(name), ": has ", static_cast<uint64_t>(facts.st_size),
         " bytes, more than the memory of this machine can hold");
  file->size_ = static_cast<size_t>(facts.st_size);
  if (file->size_ == 0) return file;
  bool is_small = file->size_ <= kReadWhole;
  void* address =
      is_small ? ReadWhole(descriptor, file->size_) : mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) {
    file->size_ = 0;
    Fail(ErrorCode::kIo, Printable(name), ": cannot be mapped: ", std::strerror(errno));
  }
  file->data_ = static_cast<const std::byte*>(address);
  if (is_small) return file;
  LiveMappings& live = LiveMappings::All();
  std::lock_guard lock(live.mutex);
  auto begin = reinterpret_cast<uintptr_t>(address);
  live.by_begin[begin] = {begin + file->size_, StateOf(facts)};
  return file;
}

MappedFile::~MappedFile() {
  if (!data_ || LeaveMemoryFile(data_)) return;
  LiveMappings& live = LiveMappings::All();
  std::lock_guard lock(live.mutex);
  live.by_begin.erase(reinterpret_cast<uintptr_t>(data_));
  munmap(const_cast<std::byte*>(data_), size_);
}

bool MappedFile::Contains(const void* address) const {
  auto at = reinterpret_cast<uintptr_t>(address), begin = reinterpret_cast<uintptr_t>(data_);
  return at >= begin && at - begin < size_;
}

void DropPages(const void* data, size_t bytes) {
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  LiveMappings& live = LiveMappings::All();
  std::lock_guard lock(live.mutex);
  const auto* mapping = live.Find(begin);
  if (mapping && begin < end && end <= mapping->second.end)
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void ReadOnce(std::span<const std::byte> bytes, FunctionRef<void(std::span<const std::byte>)> use) {
  constexpr size_t kPiece = size_t{4} << 20, kWorthDropping = size_t{64} << 10;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    std::span<const std::byte> piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    use(piece);
    if (piece.size() >= kWorthDropping) DropPages(piece.data(), piece.size());
  }
}

std::string PlaceInFile(const void* data) {
  LiveMappings& live = LiveMappings::All();
  std::lock_guard lock(live.mutex);
  auto address = reinterpret_cast<uintptr_t>(data);
  const auto* mapping = live.Find(address);
  return mapping ? Cat(mapping->second.state, "@", address - mapping->first) : std::string();
}

}  // namespace ferry
