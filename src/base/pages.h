// Pages of memory: advice to the system about them, and memory taken in large ones. Where an advice is not known,
// nothing happens.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "base/page_advice.h"

namespace ferry {

// Memory for many things that go together at the end. They lie side by side in large pages, which usually cost the
// system a fifth of what as many small ones do. Not everywhere: a virtual machine may have given its free ones back to
// its host, and getting one again takes longer than the small ones that are still there. So both are timed.
class LargePages {
 public:
  LargePages() = default;
  ~LargePages();
  LargePages(const LargePages&) = delete;
  LargePages& operator=(const LargePages&) = delete;

  // Aligned like a cache line and filled with zeros, with all of its pages taken. Throws kLimit. May be called by
  // several threads at once.
  std::byte* Allocate(size_t bytes);

 private:
  struct Mapping {
    void* begin;
    size_t bytes;
    std::byte* large;  // where its large pages begin
    std::byte* end;
  };
  struct Room {
    std::byte* begin = nullptr;
    size_t bytes = 0;
  };
  // What taking pages of one size has cost.
  struct Cost {
    double seconds = 0, bytes = 0;
  };
  Room Map(size_t bytes);
  Room Reserve(size_t bytes);
  void Take(Room room);
  bool IsLarge(const std::byte* place) const;
  void Remember(const std::byte* place, double seconds, size_t bytes);

  std::mutex mutex_;
  std::vector<Mapping> mappings_;
  Room room_;  // what the next ones are taken from
  bool prefers_large_ = true;
  Cost small_, large_;
};

}  // namespace ferry
