// How products with bfloat16 weights are cut into tiles, and what becomes of their sums.
#pragma once

#include "base/check_run.h"
#include "kernels/bf16_gemm.h"
#include "kernels/simd/finish-inl.h"
#include "kernels/simd/unroll-inl.h"

namespace ferry::FERRY_ISA {

inline constexpr int64_t kBf16Step = static_cast<int64_t>(kLanes);
inline constexpr int64_t kBf16PanelVectors = ferry::kPanelWidth / kBf16Step;
inline constexpr int kBf16TileRows = kRegisters == 32 ? 12 : 6;
// With few rows a tile takes more columns: more sums at once hide the latency of each.
inline constexpr int kBf16WideRows = 2;
inline constexpr int64_t kBf16WideVectors = 4;

// Element: what rows of A are made of when they are ready.
template <class Element>
struct Bf16Tile {
  const Element* a;
  int64_t a_stride;
  int64_t pairs;  // of depths
  const uint16_t* b;
  int64_t panel_stride;  // from one panel to the next
  float* c;
  int64_t c_stride;
  const float* wide;  // the columns as floats, two depths after the other, unless null
  bool continues;     // C holds the sum over the depths before these

  // From the first vector of columns to another one.
  HWY_INLINE int64_t Offset(int64_t v) const {
    return v / kBf16PanelVectors * panel_stride + v % kBf16PanelVectors * 2 * kBf16Step;
  }
};

template <int kRows, int kVectors, class Tile>
static HWY_INLINE void BeginSums(const Tile& tile, Floats (&sums)[kRows][kVectors]) {
  const FloatTag d;
  Unroll<0, kRows>([&]<int i>()
                       FERRY_INLINE { Unroll<0, kVectors>([&]<int v>() FERRY_INLINE { sums[i][v] = hn::Zero(d); }); });
  if (!tile.continues) return;
  Unroll<0, kRows>([&]<int i>() FERRY_INLINE {
    Unroll<0, kVectors>([&]<int v>()
                            FERRY_INLINE { sums[i][v] = hn::LoadU(d, tile.c + i * tile.c_stride + v * kBf16Step); });
  });
}

template <int kRows, int kVectors, class Tile>
static HWY_INLINE void KeepSums(const Tile& tile, const Floats (&sums)[kRows][kVectors]) {
  Unroll<0, kRows>([&]<int i>() FERRY_INLINE {
    Unroll<0, kVectors>(
        [&]<int v>() FERRY_INLINE { hn::StoreU(sums[i][v], FloatTag(), tile.c + i * tile.c_stride + v * kBf16Step); });
  });
}

// Calls run.template operator()<kRows, kVectors>(tile).
template <int kMostRows, int kVectors, class Tile, class Run>
static HWY_INLINE void RunForRows(int64_t rows, const Tile& tile, const Run& run) {
  if constexpr (kMostRows > 1) {
    if (rows < kMostRows) return RunForRows<kMostRows - 1, kVectors>(rows, tile, run);
  }
  run.template operator()<kMostRows, kVectors>(tile);
}

template <class Tile, class Run>
static HWY_INLINE void RunForSize(int64_t rows, int64_t vectors, const Tile& tile, const Run& run) {
  if (vectors == kBf16WideVectors) return RunForRows<kBf16WideRows, kBf16WideVectors>(rows, tile, run);
  if (vectors == 2) return RunForRows<kBf16TileRows, 2>(rows, tile, run);
  RunForRows<kBf16TileRows, 1>(rows, tile, run);
}

// `columns` are fewer than the tile has: the others have no place in C.
template <class Tile, class Run>
static HWY_NOINLINE void RunEdge(int64_t rows, int64_t vectors, int64_t columns, Tile tile, const Run& run) {
  float sums[kBf16TileRows * kBf16WideVectors * kBf16Step] = {};
  float* c = tile.c;
  const int64_t c_stride = tile.c_stride, width = vectors * kBf16Step;
  if (tile.continues)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t n = 0; n < columns; ++n) sums[i * width + n] = c[i * c_stride + n];
  tile.c = sums;
  tile.c_stride = width;
  RunForSize(rows, vectors, tile, run);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t n = 0; n < columns; ++n) c[i * c_stride + n] = sums[i * width + n];
}

// Bias, residual and activation of finished sums, which are in the cache.
static HWY_NOINLINE void FinishSums(const ferry::GatheredGemm& gemm, bool sum_in_place, int64_t row, int64_t rows,
                                    int64_t column, int64_t columns) {
  const FloatTag d;
  const ferry::GemmEpilogue& epilogue = gemm.epilogue;
  const bool limit = IsLimit(epilogue.activation.kind), first = epilogue.activate_first;
  const bool has_residual = epilogue.residual && !sum_in_place;
  if (!epilogue.bias && !has_residual && epilogue.activation.kind == ActivationKind::kNone) return;
  const Limits limits(limit ? epilogue.activation : ferry::Activation{});
  const float* bias = epilogue.bias ? epilogue.bias + column : nullptr;
  for (int64_t i = row; i < row + rows; ++i) {
    float* c = gemm.c + i * gemm.c_stride + column;
    const float* residual = has_residual ? epilogue.residual + i * epilogue.residual_stride + column : nullptr;
    const float* residual_now = limit || !first ? residual : nullptr;
    auto finish = [&](auto load, auto store) FERRY_INLINE {
      Floats x = load(c);
      if (bias) x = hn::Add(x, load(bias));
      if (first) x = limits.Apply(x);
      if (residual_now) x = hn::Add(x, load(residual_now));
      store(first ? x : limits.Apply(x), c);
    };
    int64_t n = 0;
    for (; n + kBf16Step <= columns; n += kBf16Step)
      finish([&](const float* from) FERRY_INLINE { return hn::LoadU(d, from + n); },
             [&](Floats x, float* to) FERRY_INLINE { hn::StoreU(x, d, to + n); });
    if (n < columns) {
      const FloatMask mask = hn::FirstN(d, static_cast<size_t>(columns - n));
      finish([&](const float* from) FERRY_INLINE { return LoadWhere(mask, d, from + n); },
             [&](Floats x, float* to) FERRY_INLINE { StoreWhere(x, mask, d, to + n); });
    }
    if (limit) continue;
    ActivateSpan(epilogue.activation, c, columns);
    if (residual && first)
      for (n = 0; n < columns; ++n) c[n] += residual[n];
  }
}

// Depths [first, last) of the rows, ready to be multiplied, an even number of them.
template <class Element, class Convert>
static HWY_INLINE void GatherRows(const ferry::GatheredGemm& gemm, int64_t row, int64_t rows, int64_t first,
                                  int64_t last, int64_t stride, Element* to, const Convert& convert) {
  for (int64_t i = 0; i < rows; ++i, to += stride) {
    for (int64_t k = first, count; k < last; k += count) {
      const int64_t tap = k / gemm.depth, at = k % gemm.depth;
      count = gemm.depth - at < last - k ? gemm.depth - at : last - k;
      convert(gemm.rows[tap * gemm.row_count + row + i] + gemm.offset + at, count, to + (k - first));
    }
    if ((last - first) % 2) to[last - first] = Element{0};
  }
}

// A block of rows and of depths stays in the second-level cache while all panels pass by, a panel's part of the depths
// in the first. Results do not depend on how rows or columns are cut.
//
// kWidens: many rows find the columns of a tile widened, which widen(tile, vectors, to) does.
template <class Element, bool kWidens, class Convert, class Widen, class Run>
static HWY_INLINE void MultiplyGathered(const ferry::GatheredGemm& gemm, const uint16_t* packed, void* scratch,
                                        const Convert& convert, const Widen& widen, const Run& run) {
  constexpr int64_t kBlockRows = 108, kBlockDepth = kWidens ? 256 : 512, kGroupColumns = 8 * ferry::kPanelWidth;
  const int64_t depth = gemm.taps * gemm.depth, panel_stride = (depth + 1) / 2 * 2 * ferry::kPanelWidth;
  const bool sum_in_place = gemm.epilogue.residual && gemm.epilogue.residual == gemm.c;
  auto* ready = static_cast<Element*>(scratch);
  constexpr int64_t kWideBytes = kWidens ? 2 * kBf16Step * kBlockDepth * static_cast<int64_t>(sizeof(float)) : 0;
  auto* wide = reinterpret_cast<float*>(static_cast<char*>(scratch) + ferry::kBf16Scratch - kWideBytes);
  for (int64_t row = 0; row < gemm.row_count; row += kBlockRows) {
    const int64_t rows = gemm.row_count - row < kBlockRows ? gemm.row_count - row : kBlockRows;
    const int64_t fit = (ferry::kBf16Scratch - kWideBytes) / static_cast<int64_t>(sizeof(Element)) / rows / 2 * 2;
    const int64_t most = rows > kBf16TileRows && fit > kBlockDepth ? kBlockDepth : fit;
    const bool widens = kWidens && rows > 2 * kBf16TileRows;
    const int64_t blocks = depth > most ? (depth + most - 1) / most : 1;
    const int64_t block_depth = (depth + 2 * blocks - 1) / (2 * blocks) * 2;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t first = block * block_depth < depth ? block * block_depth : depth;
      const int64_t last = depth - first < block_depth || block + 1 == blocks ? depth : first + block_depth;
      GatherRows(gemm, row, rows, first, last, block_depth, ready, convert);
      Bf16Tile<Element> tile{};
      tile.a_stride = block_depth;
      tile.pairs = (last - first + 1) / 2;
      tile.panel_stride = panel_stride;
      tile.c_stride = gemm.c_stride;
      tile.continues = block > 0 || sum_in_place;
      for (int64_t group = 0; group < gemm.columns; group += kGroupColumns) {
        if (group > 0) ferry::CheckRun();
        const int64_t end = gemm.columns - group < kGroupColumns ? gemm.columns : group + kGroupColumns;
        for (int64_t column = group, vectors; column < end; column += vectors * kBf16Step) {
          const int64_t left = (end - column + kBf16Step - 1) / kBf16Step;
          vectors = rows <= kBf16WideRows && left >= kBf16WideVectors ? kBf16WideVectors : left >= 2 ? 2 : 1;
          const int64_t panel = column / ferry::kPanelWidth, within = column % ferry::kPanelWidth;
          tile.b = tile.pairs > 0 ? packed + panel * panel_stride + first * ferry::kPanelWidth + within * 2 : packed;
          tile.wide = nullptr;
          if (widens) {
            widen(tile, vectors, wide);
            tile.wide = wide;
          }
          for (int64_t i = 0, count; i < rows; i += count) {
            count = rows - i < kBf16TileRows ? rows - i : kBf16TileRows;
            tile.a = ready + i * block_depth;
            tile.c = gemm.c + (row + i) * gemm.c_stride + column;
            if (end - column < vectors * kBf16Step)
              RunEdge(count, vectors, end - column, tile, run);
            else
              RunForSize(count, vectors, tile, run);
          }
        }
        if (block + 1 == blocks) FinishSums(gemm, sum_in_place, row, rows, group, end - group);
      }
    }
  }
}

// Rows that lie in memory one after the other, as pointers to a block of them at a time.
template <class Gathered>
static HWY_INLINE void MultiplyPlain(const float* a, int64_t a_stride, int64_t rows, int64_t depth, int64_t columns,
                                     float* c, int64_t c_stride, const ferry::GemmEpilogue& epilogue,
                                     const Gathered& gathered) {
  constexpr int64_t kBlockRows = 108;
  const float* pointers[kBlockRows];
  for (int64_t row = 0; row < rows; row += kBlockRows) {
    const int64_t count = rows - row < kBlockRows ? rows - row : kBlockRows;
    for (int64_t i = 0; i < count; ++i) pointers[i] = a + (row + i) * a_stride;
    ferry::GatheredGemm gemm{pointers, count, 1, depth, nullptr, columns, c + row * c_stride, c_stride, epilogue};
    if (epilogue.residual) gemm.epilogue.residual = epilogue.residual + row * epilogue.residual_stride;
    gathered(gemm);
  }
}

}  // namespace ferry::FERRY_ISA
