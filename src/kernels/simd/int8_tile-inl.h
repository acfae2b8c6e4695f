// Tiles of 8-bit products, and how the sums of a panel become results.
#pragma once

#include "kernels/simd/int8_finish-inl.h"

namespace ferry::FERRY_ISA {

using IntTag = hn::ScalableTag<int32_t>;
using Ints = hn::Vec<IntTag>;
inline constexpr int kIntStep = static_cast<int>(kLanes);

#if HWY_TARGET != HWY_SCALAR

inline constexpr int kPanelVectors = static_cast<int>(ferry::kInt8PanelWidth / static_cast<int64_t>(kLanes));
inline constexpr int kTileVectors = kPanelVectors < 2 ? 1 : 2;
inline constexpr int kTileColumns = kTileVectors * kIntStep;
// Sums of this many rows and one panel stay in the first-level cache.
inline constexpr int64_t kBlockRows = 192;

template <class Element>
struct Tile {
  const Element* a;
  int64_t a_stride, depths;
  const void* b;
  int32_t* sums;  // of this tile's rows and columns, a panel wide
};

// The levels of one row's columns, in [0, 255], as bytes.
static HWY_INLINE void StoreLevels(const Ints (&levels)[kTileVectors], uint8_t flip, uint8_t* to) {
#if HWY_TARGET == HWY_AVX2
  const hn::ScalableTag<int16_t> d16;
  const hn::Rebind<uint8_t, hn::ScalableTag<int16_t>> d8;
  // Packing goes by blocks of 128 bits.
  HWY_ALIGN static constexpr uint8_t kOrder[16] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};
  const auto bytes = hn::DemoteTo(d8, hn::ReorderDemote2To(d16, levels[0], levels[1]));
  hn::StoreU(hn::Xor(hn::TableLookupBytes(bytes, hn::Load(d8, kOrder)), hn::Set(d8, flip)), d8, to);
#else
  const hn::Rebind<uint8_t, IntTag> d8;
  for (int v = 0; v < kTileVectors; ++v)
    hn::StoreU(hn::Xor(ToBytes(IntTag(), levels[v]), hn::Set(d8, flip)), d8, to + v * kIntStep);
#endif
}

// What FinishSums does, for rows of kTileColumns sums `stride` apart, without row terms.
template <bool kBytes>
static HWY_INLINE void FinishRows(const ferry::Int8Output& out, int64_t row, int64_t rows, int64_t column,
                                  const int32_t* sums, int64_t stride) {
  const IntTag d;
  const FloatTag df;
  const int32_t shifted = out.low < 0 || out.high < 0 ? 128 : 0;
  const Floats low = hn::Set(df, static_cast<float>(out.low - out.zero)),
               high = hn::Set(df, static_cast<float>(out.high - out.zero));
  const Ints zero = hn::Set(d, out.zero + shifted);
  Ints offset[kTileVectors];
  Floats factor[kTileVectors], shift[kTileVectors];
  for (int v = 0; v < kTileVectors; ++v) {
    offset[v] = out.offset ? hn::LoadU(d, out.offset + column + v * kIntStep) : hn::Zero(d);
    factor[v] = hn::LoadU(df, out.factor + column + v * kIntStep);
    shift[v] = out.shift ? hn::LoadU(df, out.shift + column + v * kIntStep) : hn::Zero(df);
  }
  int64_t at = row * out.stride + column;
  for (int64_t i = 0; i < rows; ++i, at += out.stride, sums += stride) {
    Ints levels[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v) {
      const Ints sum = hn::Add(hn::Load(d, sums + v * kIntStep), offset[v]);
      const Floats value = hn::MulAdd(hn::ConvertTo(df, sum), factor[v], shift[v]);
      if constexpr (kBytes)
        levels[v] = hn::Add(hn::NearestInt(hn::Min(hn::Max(value, low), high)), zero);
      else
        hn::StoreU(value, df, static_cast<float*>(out.c) + at + v * kIntStep);
    }
    if constexpr (kBytes) StoreLevels(levels, static_cast<uint8_t>(shifted), static_cast<uint8_t*>(out.c) + at);
  }
}

// Rows of `columns` ≤ kTileColumns sums, each row `stride` sums apart.
static HWY_NOINLINE void FinishBlock(const ferry::Int8Output& out, int64_t row, int64_t rows, int64_t column,
                                     int64_t columns, const int32_t* sums, int64_t stride) {
  using Kind = ferry::Int8Output::Kind;
  if (columns == kTileColumns && !out.row_term) {
    if (out.kind == Kind::kBytes) return FinishRows<true>(out, row, rows, column, sums, stride);
    if (out.kind == Kind::kFloats) return FinishRows<false>(out, row, rows, column, sums, stride);
  }
  const IntTag d;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t n = 0; n < columns; n += kIntStep)
      FinishSums(d, hn::Load(d, sums + i * stride + n), out, row + i, column + n, columns - n);
}

// Rows of a tile, each a panel apart.
static HWY_NOINLINE void AddTile(const int32_t* part, int64_t rows, int32_t* sums) {
  const IntTag d;
  for (int64_t i = 0; i < rows; ++i, part += ferry::kInt8PanelWidth, sums += ferry::kInt8PanelWidth)
    for (int n = 0; n < kTileColumns; n += kIntStep)
      hn::Store(hn::Add(hn::Load(d, sums + n), hn::Load(d, part + n)), d, sums + n);
}

// One panel of columns against one block of rows, chunk of depths after chunk. `ready(depth, depths)` gives the panel's
// part as tiles read it, kUnitBytes for the depths that lie side by side; run(rows, tile) makes the sums of one tile.
// Tiles know nothing of earlier depths: their loops need all registers.
template <class Element, int kMostRows, int kUnitBytes, class Ready, class Run>
static HWY_INLINE void MultiplyPanel(const ferry::Int8Product& product, int64_t padded, int64_t chunk,
                                     int64_t first_row, int64_t rows, int64_t column, const Ready& ready,
                                     const Run& run) {
  HWY_ALIGN int32_t sums[kBlockRows * ferry::kInt8PanelWidth], part[kMostRows * ferry::kInt8PanelWidth];
  const int64_t columns =
      product.columns - column < ferry::kInt8PanelWidth ? product.columns - column : ferry::kInt8PanelWidth;
  const int8_t* panel = product.packed + column * padded;
  for (int64_t depth = 0; depth < padded; depth += chunk) {
    Tile<Element> tile{};
    tile.a_stride = padded;
    tile.depths = padded - depth < chunk ? padded - depth : chunk;
    const void* ready_panel = ready(panel + depth * ferry::kInt8PanelWidth, tile.depths);
    // What is read next comes from far away.
    const int8_t* next = panel + (depth + tile.depths) * ferry::kInt8PanelWidth;
    const int64_t ahead = (padded < chunk ? padded : chunk) * ferry::kInt8PanelWidth;
    for (int64_t i = 0; i < ahead; i += 64) __builtin_prefetch(next + i);
    for (int n = 0; n < columns; n += kTileColumns) {
      tile.b = static_cast<const uint8_t*>(ready_panel) + n * kUnitBytes;
      for (int64_t row = 0; row < rows;) {
        const int64_t left = rows - row, count = left >= kMostRows ? kMostRows : left > 6 ? 6 : left;
        tile.a = static_cast<const Element*>(product.a) + (first_row + row) * padded + depth;
        int32_t* to = sums + row * ferry::kInt8PanelWidth + n;
        tile.sums = depth == 0 ? to : part;
        run(count, tile);
        if (depth > 0) AddTile(part, count, to);
        row += count;
      }
    }
  }
  for (int n = 0; n < columns; n += kTileColumns)
    FinishBlock(product.out, first_row, rows, column + n, columns - n < kTileColumns ? columns - n : kTileColumns,
                sums + n, ferry::kInt8PanelWidth);
}

// Calls body(row, rows, column) for every block of rows and every panel of columns.
template <class Body>
static HWY_INLINE void ForPanels(const ferry::Int8Product& product, const Body& body) {
  for (int64_t row = 0; row < product.rows; row += kBlockRows) {
    const int64_t rows = product.rows - row < kBlockRows ? product.rows - row : kBlockRows;
    for (int64_t column = 0; column < product.columns; column += ferry::kInt8PanelWidth) body(row, rows, column);
  }
}

#endif

}  // namespace ferry::FERRY_ISA
