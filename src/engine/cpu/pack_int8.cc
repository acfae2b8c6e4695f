#include "engine/cpu/pack_int8.h"

#include <algorithm>
#include <cstring>

#include "base/pages.h"

namespace ferry {
namespace {

Int8Weights Room(int64_t groups, int64_t depth, int64_t columns) {
  Int8Weights packed{groups, depth, columns, Tensor(DType::kInt8, {groups * PackedInt8Size(depth, columns)}), {}};
  TakePages(packed.panels.mutable_raw(), packed.panels.bytes());
  packed.sums.resize(static_cast<size_t>(groups * columns));
  return packed;
}

// `unit` rows of a whole panel, side by side. `kUnit` is known to the compiler, or 0.
template <int64_t kUnit>
void InterleaveRows(const uint8_t* const* rows, int64_t unit, uint8_t flip, int8_t* to) {
  const int64_t count = kUnit > 0 ? kUnit : unit;
  for (int64_t n = 0; n < kInt8PanelWidth; ++n)
    for (int64_t u = 0; u < count; ++u) to[n * count + u] = static_cast<int8_t>(rows[u][n] ^ flip);
}

using Interleave = void (*)(const uint8_t* const* rows, int64_t unit, uint8_t flip, int8_t* to);

Interleave InterleaveFor(int64_t unit) {
  return unit == 2 ? InterleaveRows<2> : unit == 4 ? InterleaveRows<4> : InterleaveRows<0>;
}

// Puts a column's weights `kUnit` at a time into its places of a panel.
template <int64_t kUnit>
void SpreadLine(const int8_t* line, int64_t depth, int8_t* to) {
  int64_t k = 0;
  for (; k + kUnit <= depth; k += kUnit, to += kUnit * kInt8PanelWidth) std::memcpy(to, line + k, kUnit);
  for (int64_t u = 0; k < depth; ++k, ++u) to[u] = line[k];
}

void SpreadLine(const int8_t* line, int64_t depth, int64_t unit, int8_t* to) {
  if (unit == 2) return SpreadLine<2>(line, depth, to);
  if (unit == 4) return SpreadLine<4>(line, depth, to);
  for (int64_t k = 0; k < depth; ++k) to[k / unit * unit * kInt8PanelWidth + k % unit] = line[k];
}

void AddRows(const uint8_t* rows, int64_t count, uint8_t flip, std::vector<int32_t>& sums) {
  for (int64_t k = 0; k < count; ++k)
    for (int32_t& sum : sums) {
      auto weight = static_cast<int8_t>(*rows++ ^ flip);
      sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(int32_t{weight}));
    }
}

int32_t Sum(const int8_t* line, int64_t count) {
  uint32_t sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += static_cast<uint32_t>(int32_t{line[k]});
  return static_cast<int32_t>(sum);
}

}  // namespace

Int8Weights PackInt8Rows(const uint8_t* rows, int64_t depth, int64_t columns, uint8_t flip) {
  constexpr int64_t kBlock = 64;  // rows that are read for all panels at once: each page is touched once
  const int64_t unit = BestInt8Kernels().depth_unit, padded = PaddedDepth(depth);
  const Interleave interleave = InterleaveFor(unit);
  Int8Weights packed = Room(1, depth, columns);
  // What lies outside of the matrix is 0 after the change.
  std::vector<uint8_t> outside(kInt8PanelWidth, flip), edge(static_cast<size_t>(unit * kInt8PanelWidth));
  std::vector<const uint8_t*> from(static_cast<size_t>(unit));
  for (int64_t first = 0; first < padded; first += kBlock) {
    AddRows(rows + first * columns, std::min(kBlock, depth - first), flip, packed.sums);
    for (int64_t n = 0; n < columns; n += kInt8PanelWidth) {
      const int64_t filled = std::min(kInt8PanelWidth, columns - n);
      int8_t* to = packed.panels.MutableData<int8_t>() + n * padded + first * kInt8PanelWidth;
      for (int64_t k = first; k < std::min(padded, first + kBlock); k += unit, to += unit * kInt8PanelWidth) {
        for (int64_t u = 0; u < unit; ++u) {
          const uint8_t* row = k + u < depth ? rows + (k + u) * columns + n : outside.data();
          if (k + u < depth && filled < kInt8PanelWidth) {
            uint8_t* whole = edge.data() + u * kInt8PanelWidth;
            std::fill(std::copy_n(row, filled, whole), whole + kInt8PanelWidth, flip);
            row = whole;
          }
          from[static_cast<size_t>(u)] = row;
        }
        interleave(from.data(), unit, flip, to);
      }
    }
  }
  return packed;
}

Int8Weights PackInt8Lines(int64_t groups, int64_t depth, int64_t columns,
                          FunctionRef<const int8_t*(int64_t, int64_t)> line) {
  const int64_t unit = BestInt8Kernels().depth_unit, size = PackedInt8Size(depth, columns);
  Int8Weights packed = Room(groups, depth, columns);
  int8_t* panels = packed.panels.MutableData<int8_t>();
  if (columns % kInt8PanelWidth != 0 || PaddedDepth(depth) != depth) std::fill_n(panels, packed.panels.size(), int8_t{0});
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t n = 0; n < columns; ++n) {
      const int8_t* from = line(group, n);
      SpreadLine(from, depth, unit, panels + group * size + PackedInt8Index(depth, 0, n));
      packed.sums[static_cast<size_t>(group * columns + n)] = Sum(from, depth);
    }
  return packed;
}

}  // namespace ferry
