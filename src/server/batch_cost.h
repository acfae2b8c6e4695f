// What runs of so many rows were measured to cost, and how many rows are worth joining by that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ferry::server {

class BatchCost {
 public:
  void Note(int64_t rows, double microseconds);
  // The same for a run that had more than one thread: it only counts until one with a single thread is known.
  void NoteShared(int64_t rows, double microseconds);
  double OfOne() const { return sizes_[0].us; }  // 0: not known yet

  // Rows for the next run while `available` wait for `instances` workers: as many as let the last of them be answered
  // soonest. Sizes that are not known yet are tried: the largest at once if `eager`, else by doubling while that
  // gained. `least`: rows of the first who waits.
  int64_t Choose(int64_t available, int64_t most, int instances, bool eager, int64_t least = 1);

 private:
  struct Size {
    double us = 0;  // of a run of exactly two to the power of the index
    int runs = 0;
    bool shared = false;
  };
  static size_t IndexOf(int64_t rows);
  bool IsKnown(size_t index) const;
  double PerRow(size_t index) const;
  bool MayTry(size_t base, int64_t rows, int64_t available) const;

  std::array<Size, 24> sizes_{};
  uint64_t decisions_ = 0;
};

}  // namespace ferry::server
