#include "base/cache_folder.h"

#include <sys/stat.h>

#include <cstdlib>

#include "base/directory.h"
#include "base/text.h"

namespace ferry {
namespace {

std::string RootOfCaches() {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (std::string chosen = variable("FERRY_CACHE"); !chosen.empty()) return chosen;
  if (std::string caches = variable("XDG_CACHE_HOME"); !caches.empty()) return JoinPath(caches, "ferry");
  if (std::string home = variable("HOME"); !home.empty()) return JoinPath(home, ".cache/ferry");
  return {};
}

// With all folders above it. Others have no business in it: what lies there is run.
bool MakeFolders(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), 0777);
  mkdir(path.c_str(), 0700);
  return IsDirectory(path);
}

}  // namespace

std::string CacheFolder(std::string_view part) {
  std::string root = RootOfCaches();
  if (root.empty()) return {};
  std::string folder = JoinPath(root, part);
  return MakeFolders(folder) ? folder : std::string();
}

}  // namespace ferry
