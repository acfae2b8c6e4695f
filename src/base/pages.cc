#include "base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace ferry {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

// About the pages that lie wholly inside.
void Advise(const void* data, size_t bytes, int advice, uintptr_t page) {
  uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

[[maybe_unused]] void Advise(const void* data, size_t bytes, int advice) {
  Advise(data, bytes, advice, static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace

void TakePages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  Advise(data, bytes, MADV_POPULATE_WRITE);
#endif
}

void WillRead([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#ifdef MADV_POPULATE_READ
  Advise(data, bytes, MADV_POPULATE_READ);
#endif
}

void PreferLargePages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  Advise(data, bytes, MADV_HUGEPAGE, kLargePage);
#endif
}

LargePages::~LargePages() {
  for (const Mapping& mapping : mappings_) munmap(mapping.begin, mapping.bytes);
}

// Address space costs nothing: much is asked for at once. What small models need lies in small pages, so that they do
// not pay for a large one.
LargePages::Room LargePages::Map(size_t bytes) {
  constexpr size_t kAtLeast = size_t{64} << 20;
  const size_t in_small = mappings_.empty() ? kLargePage : 0;
  const size_t usable = std::max(kAtLeast, (bytes + kLargePage - 1) / kLargePage * kLargePage);
  const size_t whole = usable + kLargePage;
  void* begin = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) Fail(ErrorCode::kLimit, "no memory for ", bytes, " bytes");
  mappings_.push_back({begin, whole});
  const auto address = reinterpret_cast<uintptr_t>(begin);
  std::byte* aligned = static_cast<std::byte*>(begin) + (kLargePage - address % kLargePage) % kLargePage;
  PreferLargePages(aligned + in_small, usable - in_small);
  return {aligned, usable};
}

std::byte* LargePages::Allocate(size_t bytes) {
  constexpr size_t kLine = 64, kLargest = size_t{1} << 46;
  if (bytes > kLargest) Fail(ErrorCode::kLimit, bytes, " bytes are more than any machine's memory");
  const size_t rounded = (bytes + kLine - 1) / kLine * kLine;
  std::lock_guard lock(mutex_);
  const bool fits = rounded <= room_.bytes;
  Room from = fits ? room_ : Map(rounded);
  const Room rest{from.begin + rounded, from.bytes - rounded};
  if (fits || rest.bytes > room_.bytes) room_ = rest;
  return from.begin;
}

}  // namespace ferry
