#include "server/batch_cost.h"

#include <algorithm>

namespace ferry::server {
namespace {

constexpr double kGain = 0.97;       // less than this is noise
constexpr uint64_t kLookAgain = 64;  // decisions until another size is tried again
constexpr int kRunsToKnow = 3;

}  // namespace

size_t BatchCost::IndexOf(int64_t rows) {
  size_t index = 0;
  while (rows > 1 && index < 23) {
    rows >>= 1;
    ++index;
  }
  return index;
}

void BatchCost::Note(int64_t rows, double microseconds) {
  if (rows < 1) return;
  const size_t index = IndexOf(rows);
  Size& size = sizes_[index];
  const double us = microseconds * static_cast<double>(int64_t{1} << index) / static_cast<double>(rows);
  // The first run of a size also makes it ready.
  if (size.runs++ < 2 || size.shared)
    size.us = us;
  else
    size.us = us < size.us ? size.us * 0.5 + us * 0.5 : size.us * 0.95 + us * 0.05;
  size.shared = false;
}

void BatchCost::NoteShared(int64_t rows, double microseconds) {
  Size& size = sizes_[IndexOf(std::max<int64_t>(rows, 1))];
  if (size.runs > 0 && !size.shared) return;
  Note(rows, microseconds);
  size.shared = true;
}

bool BatchCost::IsKnown(size_t index) const { return sizes_[index].runs >= kRunsToKnow && !sizes_[index].shared; }

double BatchCost::PerRow(size_t index) const { return sizes_[index].us / static_cast<double>(int64_t{1} << index); }

// Making a size ready takes longer than its runs. Where those are long, it is done for those who wait by the dozen, and
// not for a few who would be answered sooner one by one.
bool BatchCost::MayTry(size_t base, int64_t rows, int64_t available) const {
  constexpr double kLongUs = 1000;
  return sizes_[base].us < kLongUs || available >= 2 * rows;
}

int64_t BatchCost::Choose(int64_t available, int64_t most, int instances, bool eager, int64_t least) {
  const size_t base = IndexOf(least), top = IndexOf(std::min(available, most));
  if (top <= base) return least;
  auto rows_of = [&](size_t index) { return least << (index - base); };
  auto at_top = [&] { return available >= most ? most : rows_of(top); };
  if (eager && !IsKnown(top)) return at_top();
  if (!IsKnown(base)) return least;
  size_t best = base, known = base;
  auto time_to_last = [&](size_t index) {
    return PerRow(index) *
           (static_cast<double>(available) / std::max(instances, 1) + static_cast<double>(rows_of(index)));
  };
  for (size_t index = base + 1; index <= top; ++index) {
    if (!IsKnown(index)) {
      if (!eager && MayTry(base, rows_of(index), available) && index == known + 1 &&
          (known == base || PerRow(known) < PerRow(known - 1) * kGain))
        return std::min(rows_of(index), most);
      continue;
    }
    known = index;
    if (time_to_last(index) < time_to_last(best) * kGain) best = index;
  }
  // Now and then a size beside it, above and below in turn, since what was measured may be old.
  if (++decisions_ % kLookAgain == 0) {
    const bool up = decisions_ / kLookAgain % 2 == 0;
    best = (up || best == base) && best < top ? best + 1 : best - 1;
  }
  return best == top ? at_top() : rows_of(best);
}

}  // namespace ferry::server
