#include "base/memory_files.h"

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>

#include "base/text.h"

namespace ferry {
namespace {

struct File {
  std::byte* data = nullptr;
  size_t size = 0;
  uint64_t number = 0;
};

struct MemoryFiles {
  std::mutex mutex;
  std::map<std::string, File> by_path;
  struct Use {
    int users = 1;  // its path is one of them
    size_t size = 0;
  };
  std::map<const std::byte*, Use> uses;  // of every file's bytes
  uint64_t next_number = 1;

  static MemoryFiles& All() {
    static MemoryFiles* all = new MemoryFiles;  // outlives every file, also those closed at exit
    return *all;
  }

  void Remove(const std::string& path) {
    auto found = by_path.find(path);
    if (found == by_path.end()) return;
    Leave(found->second.data);
    by_path.erase(found);
  }

  bool Leave(const std::byte* data) {
    auto found = uses.find(data);
    if (found == uses.end()) return false;
    if (--found->second.users > 0) return true;
    uses.erase(found);
    std::free(const_cast<std::byte*>(data));
    return true;
  }
};

// One spelling for one place: "/a//b/./c" is "/a/b/c".
std::string Plain(std::string_view path) {
  std::string plain;
  for (const std::string& part : SplitText(path, '/'))
    if (!part.empty() && part != ".") plain += "/" + part;
  return plain;
}

}  // namespace

void PutMemoryFile(std::string_view path, std::byte* data, size_t size) {
  MemoryFiles& all = MemoryFiles::All();
  std::lock_guard lock(all.mutex);
  const std::string plain = Plain(path);
  all.Remove(plain);
  all.by_path[plain] = {data, size, all.next_number++};
  if (data) all.uses[data] = {1, size};
}

void RemoveMemoryFile(std::string_view path) {
  MemoryFiles& all = MemoryFiles::All();
  std::lock_guard lock(all.mutex);
  all.Remove(Plain(path));
}

std::optional<std::span<const std::byte>> TakeMemoryFile(std::string_view path) {
  MemoryFiles& all = MemoryFiles::All();
  std::lock_guard lock(all.mutex);
  if (all.by_path.empty()) return std::nullopt;
  auto found = all.by_path.find(Plain(path));
  if (found == all.by_path.end()) return std::nullopt;
  const File& file = found->second;
  if (file.data) ++all.uses[file.data].users;
  return std::span<const std::byte>(file.data, file.size);
}

bool LeaveMemoryFile(const std::byte* data) {
  MemoryFiles& all = MemoryFiles::All();
  std::lock_guard lock(all.mutex);
  return all.Leave(data);
}

bool IsInOwnMemoryFile(const std::byte* begin, size_t bytes) {
  MemoryFiles& all = MemoryFiles::All();
  std::lock_guard lock(all.mutex);
  auto after = all.uses.upper_bound(begin);
  if (after == all.uses.begin()) return false;
  const auto& [data, use] = *std::prev(after);
  const auto at = static_cast<size_t>(begin - data);
  return use.users == 1 && at < use.size && bytes <= use.size - at;
}

std::string MemoryFileIdentity(std::string_view path) {
  MemoryFiles& all = MemoryFiles::All();
  std::lock_guard lock(all.mutex);
  if (all.by_path.empty()) return {};
  auto found = all.by_path.find(Plain(path));
  return found == all.by_path.end() ? std::string() : Cat("memory:", found->second.number, ":", found->second.size);
}

}  // namespace ferry
