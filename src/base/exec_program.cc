#include "base/exec_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/text.h"

namespace ferry {

std::string FindProgram(const std::string& name) {
  char self[4096];
  const ssize_t size = readlink("/proc/self/exe", self, sizeof(self));
  std::string path = size > 0 ? std::string(self, static_cast<size_t>(size)) : std::string();
  const size_t slash = path.rfind('/');
  path = slash == std::string::npos ? std::string() : path.substr(0, slash + 1) + name;
  if (!path.empty() && access(path.c_str(), X_OK) == 0) return path;
  const char* folders = std::getenv("PATH");
  for (const std::string& folder : SplitText(folders ? folders : "", ':')) {
    path = folder + "/" + name;
    if (!folder.empty() && access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

std::string ExecProgram(const std::string& path, std::span<const char* const> arguments) {
  std::vector<char*> words = {const_cast<char*>(path.c_str())};
  for (const char* argument : arguments) words.push_back(const_cast<char*>(argument));
  words.push_back(nullptr);
  execv(path.c_str(), words.data());
  return std::strerror(errno);
}

}  // namespace ferry
