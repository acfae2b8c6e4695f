// Short texts, such as those of the system under /proc.
#pragma once

#include <string>

namespace ferry {

// At most `most` bytes from its beginning; nothing where it cannot be read. Without streams, whose locales would be the
// larger part of a small program.
std::string ReadSmallText(const std::string& path, size_t most = size_t{1} << 16);
std::string FirstLineOf(const std::string& path);

// What follows `key` in its line, without blanks around it; nothing where no line begins with the key.
std::string ValueOf(const std::string& text, const std::string& key);

}  // namespace ferry
