// Which file a path leads to, and whether it is still the same.
#pragma once

#include <string>

namespace ferry {

// Tells files, and states of one file, apart; empty when there is none.
std::string FileIdentity(const std::string& path);

// The path from the root without links; the path as it is when there is no such file.
std::string WholePath(const std::string& path);

// Makes the folder unless it is there; false when it can not be made.
bool EnsureDirectory(const std::string& path);

}  // namespace ferry
