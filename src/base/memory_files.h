// Files that lie in memory under a path of their own, where a page has no file system to map from: whoever opens such a
// path sees the very bytes, without a copy.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ferry {

// Puts a file there, or in the place of another of this path. `data` comes from malloc and is freed once the path is
// removed or taken by another file, and nobody maps it any more; null for an empty file.
void PutMemoryFile(std::string_view path, std::byte* data, size_t size);
void RemoveMemoryFile(std::string_view path);

// One more user of the bytes, who says LeaveMemoryFile at the end. Nothing when there is no such file.
std::optional<std::span<const std::byte>> TakeMemoryFile(std::string_view path);
// False when the bytes are those of no file in memory.
bool LeaveMemoryFile(const std::byte* data);

// Whether these bytes lie in a file in memory that has one user left: its path is gone, nobody else will see them.
bool IsInOwnMemoryFile(const std::byte* begin, size_t bytes);

// Tells files apart that had the same path one after the other; empty when there is none.
std::string MemoryFileIdentity(std::string_view path);

}  // namespace ferry
