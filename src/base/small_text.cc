#include "base/small_text.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace ferry {

std::string ReadSmallText(const std::string& path, size_t most) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return text;
  text.resize(most);
  size_t done = 0;
  while (done < most) {
    const ssize_t count = read(file, text.data() + done, most - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  close(file);
  text.resize(done);
  return text;
}

std::string FirstLineOf(const std::string& path) {
  const std::string text = ReadSmallText(path);
  return text.substr(0, text.find('\n'));
}

std::string ValueOf(const std::string& text, const std::string& key) {
  constexpr char kBlanks[] = " \t:\r";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (text.compare(begin, key.size(), key) == 0) {
      const std::string rest = text.substr(begin + key.size(), end - begin - key.size());
      const size_t from = rest.find_first_not_of(kBlanks);
      return from == std::string::npos ? std::string() : rest.substr(from, rest.find_last_not_of(kBlanks) - from + 1);
    }
    begin = end + 1;
  }
  return {};
}

}  // namespace ferry
