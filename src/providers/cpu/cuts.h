// How loops over products are cut among threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/packed_gemm.h"
#include "ops/context.h"

namespace ferry {

// Pieces of this many multiply-adds keep every thread busy for some ten microseconds.
inline constexpr int64_t kPieceWork = 1 << 20;

// Multiply-adds that take some milliseconds: as many may pass before a look whether the run goes on.
inline constexpr int64_t kWorkBetweenLooks = 1 << 27;

// Products of few rows take as long as reading the weights does, which is about as long as multiplying a tile by them.
inline int64_t WorkOf(int64_t rows, int64_t depth, int64_t columns) {
  return std::max<int64_t>({1, std::max(rows, BestGemmKernels().best_rows) * depth * columns});
}

inline int64_t ThreadsOf(const OpContext& context) {
  const ThreadPool* pool = context.services().pool;
  return pool ? pool->threads() : 1;
}

// Large pieces read the other operand less often; these are as many as even out the work.
inline int64_t LeastOfPiece(const OpContext& context, int64_t count) { return count / (8 * ThreadsOf(context)); }

// How many panels of columns make a piece when each is multiplied by all rows.
inline int64_t PanelsOfPiece(int64_t rows, int64_t depth) {
  return std::max<int64_t>(1, kPieceWork / WorkOf(rows, depth, kPanelWidth));
}

// Panels that stay together when they are cut into pieces: those of a whole tile where there are enough of them.
inline int64_t PanelsOfUnit(int64_t panels, int64_t pieces) {
  int64_t unit = BestGemmKernels().best_panels;
  while (unit > 1 && panels < pieces * unit) unit /= 2;
  return unit;
}

// body(column, count) for pieces of a product's columns, each of about `grain` panels.
template <class Body>
void ForColumns(const OpContext& context, int64_t columns, int64_t grain, const Body& body) {
  const int64_t panels = (columns + kPanelWidth - 1) / kPanelWidth;
  const int64_t unit = PanelsOfUnit(panels, 4 * ThreadsOf(context)), width = unit * kPanelWidth;
  context.ParallelFor((panels + unit - 1) / unit, (grain + unit - 1) / unit, [&](int64_t first, int64_t last) {
    body(first * width, std::min(columns, last * width) - first * width);
  });
}

// How many panels of columns are packed together on the way, for a product whose weights are not kept: they stay in the
// second-level cache until all rows have passed by.
inline int64_t PanelsOnTheWay(int64_t depth) {
  constexpr int64_t kMostBytes = 208 * 1024;
  const int64_t fit = kMostBytes / (std::max<int64_t>(1, depth) * kPanelWidth * 4), unit = PanelsOfUnit(fit, 1);
  return std::max({int64_t{1}, std::min<int64_t>(2, BestGemmKernels().best_panels), fit / unit * unit});
}

}  // namespace ferry
