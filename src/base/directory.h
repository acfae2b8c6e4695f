// Folders and paths, as far as the house needs them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ferry {

bool IsDirectory(const std::string& path);
bool IsFile(const std::string& path);  // anything that is there and is not a folder

// The names in a folder, without "." and "..", in natural order (input_2 before input_10). Throws when it can't be
// read.
std::vector<std::string> ListDirectory(const std::string& path);

std::string JoinPath(std::string_view folder, std::string_view name);
// The last part of a path, also when it ends in a slash.
std::string_view LastPart(std::string_view path);

}  // namespace ferry
