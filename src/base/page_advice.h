// Advice to the system about pages of memory. Where an advice is not known, nothing happens.
#pragma once

#include <cstddef>

namespace ferry {

// Asks for all pages of memory that will be written from end to end: much less than a fault for each.
void TakePages(void* data, size_t bytes);
// Asks for all pages of a mapped file that will be read soon.
void WillRead(const void* data, size_t bytes);
// Asks for a mapped file to be read from the disk into large pages, where the system has such for files.
void InLargePages(const void* data, size_t bytes);

}  // namespace ferry
