// CheckRun for loops whose turns may be long or short: they say how much each of them did.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check_run.h"

namespace ferry {

// Elements, or steps like them, between two looks: a millisecond or so.
inline constexpr int64_t kWorkBetweenLooks = 1 << 19;

class WorkPoll {
 public:
  void operator()(int64_t work) {
    if ((done_ += work) < kWorkBetweenLooks) return;
    done_ = 0;
    CheckRun();
  }

 private:
  int64_t done_ = 0;
};

// body(begin, end) over [0, count) in order, in parts with a look between them. `work` is what one of `count` takes.
template <class Body>
void ForLookedParts(int64_t count, int64_t work, const Body& body) {
  const int64_t part = work >= kWorkBetweenLooks ? 1 : kWorkBetweenLooks / (work > 0 ? work : 1);
  for (int64_t begin = 0; begin < count; begin += part) {
    if (begin > 0) CheckRun();
    body(begin, count - begin < part ? count : begin + part);
  }
}

// Makes a vector longer in parts: a large one takes its pages from the system, which lasts.
template <class Vector>
void GrowTo(Vector& vector, size_t size) {
  vector.reserve(size);
  ForLookedParts(static_cast<int64_t>(size), 4, [&](int64_t, int64_t end) { vector.resize(static_cast<size_t>(end)); });
}

}  // namespace ferry
