// Advice to the system about pages of memory. Where it is not known, nothing happens.
#pragma once

#include <cstddef>

namespace ferry {

// Asks for all pages of memory that will be written from end to end: much less than a fault for each.
void TakePages(void* data, size_t bytes);
// Asks for all pages of a mapped file that will be read soon.
void WillRead(const void* data, size_t bytes);

}  // namespace ferry
