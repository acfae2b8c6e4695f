#include "base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/check_run.h"
#include "base/error.h"

namespace ferry {
namespace {

#ifdef __EMSCRIPTEN__
// Address space is memory there, and filled with zeros: only what is needed is asked for.
constexpr size_t kLargePage = size_t{64} << 10, kLeastMapping = size_t{256} << 10;
#else
constexpr size_t kLargePage = size_t{2} << 20, kLeastMapping = size_t{64} << 20;
#endif

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
  constexpr size_t kAtOnce = size_t{32} << 20;  // some milliseconds
  auto* begin = static_cast<std::byte*>(data);
  for (size_t at = 0; at < bytes; at += kAtOnce) {
    if (at > 0) CheckRun();
    Advise(begin + at, std::min(kAtOnce, bytes - at), MADV_POPULATE_WRITE);
  }
#endif
}

void WillRead([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#ifdef MADV_POPULATE_READ
  Advise(data, bytes, MADV_POPULATE_READ);
#endif
}

void InLargePages([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  Advise(data, bytes, MADV_HUGEPAGE);
#endif
}

LargePages::~LargePages() {
  for (const Mapping& mapping : mappings_) munmap(mapping.begin, mapping.bytes);
}

// Address space costs nothing: much is asked for at once. The first pages are small ones, so that small models do not
// pay for large ones.
LargePages::Room LargePages::Map(size_t bytes) {
  const size_t in_small = mappings_.empty() ? kLargePage : 0;
  const size_t usable = std::max(kLeastMapping, (bytes + kLargePage - 1) / kLargePage * kLargePage);
  const size_t whole = usable + kLargePage;
  void* begin = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) Fail(ErrorCode::kLimit, "no memory for ", bytes, " bytes");
  const auto address = reinterpret_cast<uintptr_t>(begin);
  std::byte* aligned = static_cast<std::byte*>(begin) + (kLargePage - address % kLargePage) % kLargePage;
  std::byte* end = aligned + usable;
  mappings_.push_back({begin, whole, prefers_large_ ? aligned + in_small : end, end});
#ifdef MADV_HUGEPAGE
  if (prefers_large_) madvise(aligned + in_small, usable - in_small, MADV_HUGEPAGE);
#endif
  return {aligned, usable};
}

LargePages::Room LargePages::Reserve(size_t bytes) {
  constexpr size_t kLine = 64;
  const size_t rounded = (bytes + kLine - 1) / kLine * kLine;
  std::lock_guard lock(mutex_);
  const bool fits = rounded <= room_.bytes;
  const Room from = fits ? room_ : Map(rounded);
  const Room rest{from.begin + rounded, from.bytes - rounded};
  if (fits || rest.bytes > room_.bytes) room_ = rest;
  return {from.begin, rounded};
}

bool LargePages::IsLarge(const std::byte* place) const {
  return std::any_of(mappings_.begin(), mappings_.end(),
                     [&](const Mapping& mapping) { return mapping.large <= place && place < mapping.end; });
}

void LargePages::Remember(const std::byte* place, double seconds, size_t bytes) {
  constexpr double kPatience = 0.002;  // seconds: a thread may have been put aside meanwhile
  std::lock_guard lock(mutex_);
  Cost& cost = IsLarge(place) ? large_ : small_;
  cost.seconds += seconds;
  cost.bytes += static_cast<double>(bytes);
  if (!prefers_large_ || small_.bytes == 0) return;
  if (large_.seconds <= large_.bytes * small_.seconds / small_.bytes + kPatience) return;
  prefers_large_ = false;
  for (Mapping& mapping : mappings_) {
#ifdef MADV_NOHUGEPAGE
    madvise(mapping.large, static_cast<size_t>(mapping.end - mapping.large), MADV_NOHUGEPAGE);
#endif
    mapping.large = mapping.end;
  }
}

void LargePages::Take(Room room) {
  using Clock = std::chrono::steady_clock;
  while (room.bytes > 0) {
    const size_t to_next = kLargePage - reinterpret_cast<uintptr_t>(room.begin) % kLargePage;
    const size_t bytes = std::min(room.bytes, to_next);
    const Clock::time_point begin = Clock::now();
    TakePages(room.begin, bytes);
    const std::chrono::duration<double> time = Clock::now() - begin;
    Remember(room.begin, time.count(), bytes);
    room.begin += bytes, room.bytes -= bytes;
  }
}

std::byte* LargePages::Allocate(size_t bytes) {
  constexpr auto kLargest = static_cast<size_t>(std::min<uint64_t>(uint64_t{1} << 46, PTRDIFF_MAX));
  if (bytes > kLargest) Fail(ErrorCode::kLimit, bytes, " bytes are more than any machine's memory");
  const Room room = Reserve(bytes);
  Take(room);
  return room.begin;
}

}  // namespace ferry
