// Pages of memory: advice to the system about them, and memory taken in large ones. Where an advice is not known,
// nothing happens.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace ferry {

// Asks for all pages of memory that will be written from end to end: much less than a fault for each.
void TakePages(void* data, size_t bytes);
// Asks for all pages of a mapped file that will be read soon.
void WillRead(const void* data, size_t bytes);
// Asks for large pages when this memory is written for the first time. What does not fill one stays in small ones.
void PreferLargePages(void* data, size_t bytes);

// Memory for many things that go together at the end. They lie side by side in large pages, which cost the system a
// tenth of what as many small ones do, and the processor fewer entries in its tables.
class LargePages {
 public:
  LargePages() = default;
  ~LargePages();
  LargePages(const LargePages&) = delete;
  LargePages& operator=(const LargePages&) = delete;

  // Aligned like a cache line and filled with zeros; taken from the system when it is written or by TakePages. Throws
  // kLimit. May be called by several threads at once.
  std::byte* Allocate(size_t bytes);

 private:
  struct Mapping {
    void* begin;
    size_t bytes;
  };
  struct Room {
    std::byte* begin = nullptr;
    size_t bytes = 0;
  };
  Room Map(size_t bytes);

  std::mutex mutex_;
  std::vector<Mapping> mappings_;
  Room room_;  // what the next ones are taken from
};

}  // namespace ferry
