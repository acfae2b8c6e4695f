#include "kernels/packed_gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/check_run.h"
#include "kernels/transpose_block.h"

namespace ferry {

int64_t PackedSize(int64_t depth, int64_t columns) {
  return depth * ((columns + kPanelWidth - 1) / kPanelWidth * kPanelWidth);
}

int64_t PackedIndex(int64_t depth, int64_t k, int64_t n) {
  return depth * (n / kPanelWidth * kPanelWidth) + k * kPanelWidth + n % kPanelWidth;
}

namespace {

float At(const float* base, int64_t index) {
  float value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(base) + index * int64_t{sizeof value}, sizeof value);
  return value;
}

void CopyFloats(const float* base, int64_t index, int64_t count, float* to) {
  std::memcpy(to, reinterpret_cast<const std::byte*>(base) + index * int64_t{sizeof(float)},
              static_cast<size_t>(count) * sizeof(float));
}

// Few columns of each row: the processor does not see which lines come next.
void PackFewColumns(const float* b, int64_t depth, int64_t panels, int64_t row_stride, float* packed) {
  constexpr int64_t kAhead = 24;
  for (int64_t k = 0; k < depth; ++k, b += row_stride, packed += kPanelWidth)
    for (int64_t i = 0; i < panels; ++i) {
      if (k + kAhead < depth) __builtin_prefetch(b + kAhead * row_stride + i * kPanelWidth);
      CopyFloats(b, i * kPanelWidth, kPanelWidth, packed + i * depth * kPanelWidth);
    }
}

// Rows that lie together are read as they lie, a block of them for all panels: each page is touched once.
void PackRows(const float* b, int64_t depth, int64_t columns, int64_t row_stride, float* packed) {
  constexpr int64_t kBlock = 32, kFewPanels = 8;
  if (columns % kPanelWidth == 0 && columns <= kFewPanels * kPanelWidth && columns < row_stride)
    return PackFewColumns(b, depth, columns / kPanelWidth, row_stride, packed);
  for (int64_t first = 0; first < depth; first += kBlock) {
    const int64_t last = std::min(depth, first + kBlock);
    if (first > 0) CheckRun();
    for (int64_t n = 0; n < columns; n += kPanelWidth) {
      const int64_t filled = std::min(kPanelWidth, columns - n);
      float* to = packed + depth * n;
      if (filled == kPanelWidth)
        for (int64_t k = first; k < last; ++k) CopyFloats(b, k * row_stride + n, kPanelWidth, to + k * kPanelWidth);
      else
        for (int64_t k = first; k < last; ++k) {
          CopyFloats(b, k * row_stride + n, filled, to + k * kPanelWidth);
          std::fill(to + k * kPanelWidth + filled, to + (k + 1) * kPanelWidth, 0.0f);
        }
    }
  }
}

}  // namespace

void TurnIntoPanel(const float* lines, int64_t line_stride, int64_t filled, int64_t depth, float* panel,
                   int64_t following) {
  using Block = BlockTranspose<float>;
  constexpr int64_t kSide = Block::kSide, kBlock = 64, kLine = 16;
  if (filled < kPanelWidth) std::fill_n(panel, depth * kPanelWidth, 0.0f);
  const int64_t whole_lines = filled / kSide * kSide, whole_depth = depth / kSide * kSide;
  for (int64_t first = 0; first < whole_depth; first += kBlock)
    for (int64_t n = 0; n < whole_lines; n += kSide)
      for (int64_t k = first; k < std::min(whole_depth, first + kBlock); k += kSide) {
        const float* from = lines + n * line_stride + k;
        // As many lines as there are columns are more than the processor follows by itself.
        if (k + kBlock < depth + following) __builtin_prefetch(from + k % kLine / kSide * line_stride + kBlock);
        Block::Run(reinterpret_cast<const std::byte*>(from), line_stride,
                   reinterpret_cast<std::byte*>(panel + k * kPanelWidth + n), kPanelWidth);
      }
  for (int64_t n = 0; n < filled; ++n)
    for (int64_t k = n < whole_lines ? whole_depth : 0; k < depth; ++k)
      panel[k * kPanelWidth + n] = At(lines, n * line_stride + k);
}

void PackMatrix(const float* b, int64_t depth, int64_t columns, int64_t row_stride, int64_t column_stride,
                float* packed) {
  if (column_stride == 1) return PackRows(b, depth, columns, row_stride, packed);
  for (int64_t first = 0; first < columns; first += kPanelWidth, packed += depth * kPanelWidth) {
    int64_t filled = std::min(kPanelWidth, columns - first);
    if (first > 0) CheckRun();
    const float* from = b + first * column_stride;
    if (row_stride == 1) {
      TurnIntoPanel(from, column_stride, filled, depth, packed);
      continue;
    }
    if (filled < kPanelWidth) std::fill_n(packed, depth * kPanelWidth, 0.0f);
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t n = 0; n < filled; ++n) packed[k * kPanelWidth + n] = At(from, k * row_stride + n * column_stride);
  }
}

}  // namespace ferry
