// Tiles of 8-bit products, and how the sums of a panel become results.
#pragma once

#include "base/check_run.h"
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
  int32_t* sums;  // of this tile's rows and columns
  int64_t sums_stride;
  bool adds;  // to the sums that are there
  // What is taken off the sums of a row and of a column; null for tiles that make no such terms.
  const int32_t* row_terms;
  const int32_t* column_terms;
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

#if HWY_TARGET == HWY_AVX2
// Bytes of two rows as packing leaves them, by blocks of 128 bits.
static HWY_INLINE void StoreTwoRows(__m256i bytes, uint8_t flip, uint8_t* to, int64_t stride) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i both =
      _mm256_xor_si256(_mm256_permutevar8x32_epi32(bytes, order), _mm256_set1_epi8(static_cast<char>(flip)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(both));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + stride), _mm256_extracti128_si256(both, 1));
}
#endif

// Rows of `columns` ≤ kTileColumns sums, each row `stride` sums apart (int8_convert.cc).
void FinishBlock(const ferry::Int8Output& out, int64_t row, int64_t rows, int64_t column, int64_t columns,
                 const int32_t* sums, int64_t stride);

// Sums that are wanted as they are go where they belong at once.
static HWY_INLINE bool TakesSums(const ferry::Int8Output& out) {
  return out.kind == ferry::Int8Output::Kind::kSums && !out.offset && !out.row_term;
}

// Multiply-adds for each column of a panel after which it is time to look whether the run goes on.
inline constexpr int64_t kLongPanel = 1 << 16;

// One panel of columns against one block of rows, chunk of depths after chunk. `ready(part, depths, tile)` makes a part
// of the panel what tiles read, kUnitBytes for the depths that lie side by side; run(rows, tile) makes the sums of all
// rows. `tile` comes with the row terms of the block.
template <class Weight, int kUnitBytes, class Element, class Ready, class Run>
static HWY_INLINE void MultiplyPanel(const ferry::Int8Product& product, int64_t chunk, int64_t first_row, int64_t rows,
                                     int64_t column, Tile<Element> tile, const Ready& ready, const Run& run) {
  constexpr int64_t kWidth = ferry::kInt8PanelWidth;
  HWY_ALIGN int32_t sums[kBlockRows * kWidth];
  const int64_t columns = product.columns - column < kWidth ? product.columns - column : kWidth, padded = tile.a_stride;
  const bool stays = columns == kWidth && TakesSums(product.out);
  int32_t* const to = stays ? static_cast<int32_t*>(product.out.c) + first_row * product.out.stride + column : sums;
  tile.sums_stride = stays ? product.out.stride : kWidth;
  if (rows * padded >= kLongPanel) ferry::CheckRun();
  const auto* panel = static_cast<const Weight*>(product.packed) + column * padded;
  const int32_t* const terms = tile.column_terms;
  for (int64_t depth = 0; depth < padded; depth += chunk) {
    tile.depths = padded - depth < chunk ? padded - depth : chunk;
    tile.adds = depth > 0;
    const void* ready_panel = ready(panel + depth * kWidth, tile.depths, tile);
    // What is read next comes from far away.
    const Weight* next = panel + (depth + tile.depths) * kWidth;
    const int64_t ahead = (padded < chunk ? padded : chunk) * kWidth;
    for (int64_t i = 0; i < ahead; i += 64 / static_cast<int64_t>(sizeof(Weight))) __builtin_prefetch(next + i);
    for (int n = 0; n < columns; n += kTileColumns) {
      tile.b = static_cast<const uint8_t*>(ready_panel) + n * kUnitBytes;
      tile.a = static_cast<const Element*>(product.a) + first_row * padded + depth;
      tile.sums = to + n;
      if (terms) tile.column_terms = terms + n;
      run(rows, tile);
    }
  }
  if (stays) return;
  for (int n = 0; n < columns; n += kTileColumns)
    FinishBlock(product.out, first_row, rows, column + n, columns - n < kTileColumns ? columns - n : kTileColumns,
                sums + n, kWidth);
}

// All panels against blocks of rows that fit `sums` of MultiplyPanel.
template <class Body>
static HWY_INLINE void ForRowBlocks(const ferry::Int8Product& product, const Body& body) {
  for (int64_t row = 0; row < product.rows; row += kBlockRows)
    body(row, product.rows - row < kBlockRows ? product.rows - row : kBlockRows);
}

// Tiles of kMost rows, then of 6, then what is left: run(rows of a tile, tile, number of tiles).
template <int kMost, class Element, class Run>
static HWY_INLINE void ForTiles(int64_t rows, Tile<Element> tile, const Run& run) {
  for (int64_t most : {int64_t{kMost}, int64_t{6}, int64_t{5}, int64_t{4}, int64_t{3}, int64_t{2}, int64_t{1}}) {
    if (most > kMost || rows < most) continue;
    const int64_t tiles = rows / most;
    run(most, tile, tiles);
    rows -= most * tiles;
    tile.a += most * tiles * tile.a_stride;
    tile.sums += most * tiles * tile.sums_stride;
    if (tile.row_terms) tile.row_terms += most * tiles;
  }
}

#endif

}  // namespace ferry::FERRY_ISA
