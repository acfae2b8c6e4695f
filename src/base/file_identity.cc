#include "base/file_identity.h"

#include <sys/stat.h>

#include <cstdlib>
#include <memory>

#include "base/directory.h"
#include "base/memory_files.h"
#include "base/text.h"

namespace ferry {

std::string FileIdentity(const std::string& path) {
  if (std::string in_memory = MemoryFileIdentity(path); !in_memory.empty()) return in_memory;
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return {};
  return Cat(info.st_dev, ":", info.st_ino, ":", info.st_size, ":", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec);
}

std::string WholePath(const std::string& path) {
  std::unique_ptr<char, decltype(&std::free)> whole(realpath(path.c_str(), nullptr), &std::free);
  return whole ? whole.get() : path;
}

bool EnsureDirectory(const std::string& path) {
  if (path.find('\0') != std::string::npos) return false;
  return mkdir(path.c_str(), 0777) == 0 || IsDirectory(path);
}

}  // namespace ferry
