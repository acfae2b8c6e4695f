#include "base/directory.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace ferry {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

size_t DigitsFrom(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size() && IsDigit(text[end])) ++end;
  return end - begin;
}

// Runs of digits compare as numbers: without leading zeros, the longer run is the larger number.
bool NaturallyBefore(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (IsDigit(a[i]) && IsDigit(b[j])) {
      while (i + 1 < a.size() && a[i] == '0' && IsDigit(a[i + 1])) ++i;
      while (j + 1 < b.size() && b[j] == '0' && IsDigit(b[j + 1])) ++j;
      size_t digits_a = DigitsFrom(a, i), digits_b = DigitsFrom(b, j);
      if (digits_a != digits_b) return digits_a < digits_b;
      int order = a.compare(i, digits_a, b, j, digits_b);
      if (order != 0) return order < 0;
      i += digits_a;
      j += digits_b;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
    }
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

}  // namespace

bool IsDirectory(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

bool IsFile(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode);
}

std::vector<std::string> ListDirectory(const std::string& path) {
  std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
  if (!folder)
    Fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, Printable(path),
         ": the folder can't be read: ", std::strerror(errno));
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder.get())) {
    std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end(), NaturallyBefore);
  return names;
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  return folder.empty() || folder.back() == '/' ? Cat(folder, name) : Cat(folder, "/", name);
}

std::string_view LastPart(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  size_t slash = path.rfind('/');
  return slash == path.npos || path.size() == 1 ? path : path.substr(slash + 1);
}

}  // namespace ferry
