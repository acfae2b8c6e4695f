// How loops over products are cut among threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/packed_gemm.h"
#include "ops/context.h"

namespace ferry {

// Pieces of this many multiply-adds keep every thread busy for some ten microseconds.
inline constexpr int64_t kPieceWork = 1 << 20;

// Products of few rows take as long as reading the weights does, which is about as long as multiplying a tile by them.
inline int64_t WorkOf(int64_t rows, int64_t depth, int64_t columns) {
  return std::max<int64_t>({1, std::max(rows, BestGemmKernels().best_rows) * depth * columns});
}

// Large pieces read the other operand less often; these are as many as even out the work.
inline int64_t LeastOfPiece(const OpContext& context, int64_t count) {
  const ThreadPool* pool = context.services().pool;
  return count / (8 * (pool ? pool->threads() : 1));
}

// How many panels of columns make a piece when each is multiplied by all rows.
inline int64_t PanelsOfPiece(int64_t rows, int64_t depth) {
  return std::max<int64_t>(1, kPieceWork / WorkOf(rows, depth, kPanelWidth));
}

// How many panels of columns are packed together on the way, for a product whose weights are not kept: they stay in the
// second-level cache until all rows have passed by.
inline int64_t PanelsOnTheWay(int64_t depth) {
  constexpr int64_t kMostBytes = 208 * 1024;
  return std::max<int64_t>(1, kMostBytes / (std::max<int64_t>(1, depth) * kPanelWidth * 4));
}

}  // namespace ferry
