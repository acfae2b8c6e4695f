#include "base/check_run.h"
#include "kernels/packed_gemm.h"
#include "kernels/simd/add_product-inl.h"
#include "kernels/simd/finish-inl.h"
#include "kernels/simd/unroll-inl.h"

namespace ferry::FERRY_ISA {
namespace {

// A tile of kRows × (kVectors · kLanes) of C stays in registers for the whole depth.
constexpr int kPanelVectors = static_cast<int>(ferry::kPanelWidth / kLanes);
constexpr int kTileVectors = 2;
constexpr int kTileRows = HWY_TARGET == HWY_SCALAR ? 2 : kRegisters == 32 ? 14 : 6;
// Tiles of a single vector have registers for more rows, which hide the latency of additions.
constexpr int kNarrowTileRows = kTileRows == 6 ? 8 : kTileRows;
// Tiles of this many rows or fewer take more columns.
constexpr int kWideRows = 2;
// An odd vector at the end goes together with the two before it.
constexpr int kEndVectors = kPanelVectors <= kTileVectors ? 3 : 0, kEndRows = kRegisters == 32 ? 9 : 4;
constexpr int kFewestEndRows = (kEndRows + 1) / 2;  // of several tiles of nearly equal height

struct Tile {
  const float* const* rows;
  int64_t row_count;  // stride between taps in `rows`
  int64_t taps, depth;
  int64_t offset;
  const float* zeros;
  const float* b;        // first vector of this tile's columns
  int64_t panel_stride;  // from one panel to the next
  const char* ahead;     // what to fetch of the panels that come next, and how many bytes of it at a time
  int64_t ahead_step;
  float* c;
  int64_t c_stride;
  int64_t columns;  // that are really there, at most kVectors · kLanes
  int64_t count;    // of tiles side by side, each of whole panels
  const float* bias;
  const float* residual;
  int64_t residual_stride;
  Activation activation;
  bool activate_first;
  bool continues;  // C holds the sum over the depths before these

  // To the columns that come next, whole panels further.
  void Advance(int64_t width) {
    const int64_t step = width / ferry::kPanelWidth * panel_stride;
    b += step;
    ahead += step * static_cast<int64_t>(sizeof(float));
    c += width;
    if (bias) bias += width;
    if (residual) residual += width;
  }
};

template <int kRows, int kVectors, class Body>
HWY_INLINE void ForTile(const Body& body) {
  Unroll<0, kRows>([&]<int i>() FERRY_INLINE {
    Unroll<0, kVectors>([&]<int v>() FERRY_INLINE { body.template operator()<i, v>(); });
  });
}

// Depths between two looks ahead.
constexpr int kUnrolled = 4;
constexpr int64_t kCacheLine = 64;

// AddProduct for the lower half of the lanes, which takes half as long where the processor has 256-bit units; the upper
// ones become zero.
constexpr bool kHasHalves = HWY_TARGET <= HWY_AVX3;
HWY_INLINE void AddHalfProduct(Floats a, Floats b, Floats& sum) {
#if HWY_TARGET <= HWY_AVX3
  asm volatile("vfmadd231ps %t2, %t1, %t0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
#else
  AddProduct(a, b, sum);
#endif
}

// With kHalf, only the lower half of the last vector is there.
template <int kRows, int kVectors, bool kHalf = false>
HWY_INLINE void Step(const float* const (&a)[kRows], int64_t k, const float* b, int64_t panel_stride,
                     Floats (&acc)[kRows][kVectors]) {
  const FloatTag d;
  auto load = [&]<int v>() FERRY_INLINE {
    return hn::LoadU(d, b + v / kPanelVectors * panel_stride + v % kPanelVectors * static_cast<int>(kLanes));
  };
  if constexpr (kRows == 1) {
    const Floats element = hn::Set(d, a[0][k]);
    Unroll<0, kVectors>([&]<int v>() FERRY_INLINE { AddProduct(element, load.template operator()<v>(), acc[0][v]); });
    return;
  }
  Floats column[kVectors];
  Unroll<0, kVectors>([&]<int v>() FERRY_INLINE { column[v] = load.template operator()<v>(); });
  Unroll<0, kRows>([&]<int i>() FERRY_INLINE {
    const Floats element = hn::Set(d, a[i][k]);
    Unroll<0, kVectors>([&]<int v>() FERRY_INLINE {
      if constexpr (kHalf && v + 1 == kVectors)
        AddHalfProduct(element, column[v], acc[i][v]);
      else
        AddProduct(element, column[v], acc[i][v]);
    });
  });
}

template <int kRows>
HWY_INLINE bool AllAre(const float* const* rows, const float* zeros) {
  for (int i = 0; i < kRows; ++i)
    if (rows[i] != zeros) return false;
  return true;
}

template <int kRows, int kVectors, bool kUnroll = true, bool kHalf = false>
HWY_INLINE void Accumulate(const Tile& tile, Floats (&acc)[kRows][kVectors]) {
  const float* b = tile.b;
  const char* ahead = tile.ahead;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const float* const* rows = tile.rows + tap * tile.row_count;
    if (tile.zeros && AllAre<kRows>(rows, tile.zeros)) {
      b += tile.depth * ferry::kPanelWidth;
      continue;
    }
    const float* a[kRows];
    Unroll<0, kRows>([&]<int i>() FERRY_INLINE { a[i] = rows[i] + tile.offset; });
    int64_t k = 0;
    for (; kUnroll && k + kUnrolled <= tile.depth; k += kUnrolled, b += kUnrolled * ferry::kPanelWidth) {
      if constexpr (kVectors > 1 && kRows > 1) {
        constexpr int kPanels = kVectors > kPanelVectors ? kVectors / kPanelVectors : 1;
        Unroll<0, kPanels>([&]<int panel>() FERRY_INLINE {
          const char* next = ahead + panel * tile.panel_stride * static_cast<int64_t>(sizeof(float));
          __builtin_prefetch(next, 0, 2);
          if (tile.ahead_step > kCacheLine) __builtin_prefetch(next + kCacheLine, 0, 2);
        });
        ahead += tile.ahead_step;
      }
      Unroll<0, kUnrolled>([&]<int j>() FERRY_INLINE {
        Step<kRows, kVectors>(a, k + j, b + j * ferry::kPanelWidth, tile.panel_stride, acc);
      });
    }
    for (; k < tile.depth; ++k, b += ferry::kPanelWidth) Step<kRows, kVectors, kHalf>(a, k, b, tile.panel_stride, acc);
  }
}

// Sums begin with the bias, and with what C holds of the depths before these.
template <int kRows, int kVectors>
HWY_INLINE void BeginWhole(const Tile& tile, Floats (&acc)[kRows][kVectors]) {
  const FloatTag d;
  constexpr int kStep = static_cast<int>(kLanes);
  Unroll<0, kVectors>([&]<int v>() FERRY_INLINE {
    const Floats bias = tile.bias ? hn::LoadU(d, tile.bias + v * kStep) : hn::Zero(d);
    Unroll<0, kRows>([&]<int i>() FERRY_INLINE { acc[i][v] = bias; });
  });
  if (!tile.continues) return;
  ForTile<kRows, kVectors>([&]<int i, int v>() FERRY_INLINE {
    acc[i][v] = hn::Add(acc[i][v], hn::LoadU(d, tile.c + i * tile.c_stride + v * kStep));
  });
}

// Columns that are not there are left at zero.
template <int kRows, int kVectors>
HWY_INLINE void BeginEdge(const Tile& tile, Floats (&acc)[kRows][kVectors]) {
  const FloatTag d;
  Unroll<0, kVectors>([&]<int v>() FERRY_INLINE {
    int64_t first = v * static_cast<int64_t>(kLanes), there = tile.columns - first;
    const FloatMask mask = hn::FirstN(d, static_cast<size_t>(there < 0 ? 0 : there));
    const Floats bias = tile.bias ? LoadWhere(mask, d, tile.bias + first) : hn::Zero(d);
    Unroll<0, kRows>([&]<int i>() FERRY_INLINE {
      acc[i][v] = bias;
      if (tile.continues) acc[i][v] = hn::Add(bias, LoadWhere(mask, d, tile.c + i * tile.c_stride + first));
    });
  });
}

// All columns of the tile are there.
template <int kRows, int kVectors>
HWY_INLINE void FinishWhole(const Tile& tile, const Limits& limits, Floats (&acc)[kRows][kVectors]) {
  const FloatTag d;
  constexpr int kStep = static_cast<int>(kLanes);
  auto limit = [&]() FERRY_INLINE {
    if (tile.activation.kind == ActivationKind::kNone) return;
    ForTile<kRows, kVectors>([&]<int i, int v>() FERRY_INLINE { acc[i][v] = AtLeast(limits.low, acc[i][v]); });
    if (tile.activation.kind == ActivationKind::kRelu) return;
    ForTile<kRows, kVectors>([&]<int i, int v>() FERRY_INLINE { acc[i][v] = AtMost(limits.high, acc[i][v]); });
  };
  if (tile.residual) {
    if (tile.activate_first) limit();
    ForTile<kRows, kVectors>([&]<int i, int v>() FERRY_INLINE {
      acc[i][v] = hn::Add(acc[i][v], hn::LoadU(d, tile.residual + i * tile.residual_stride + v * kStep));
    });
    if (!tile.activate_first) limit();
  } else {
    limit();
  }
  ForTile<kRows, kVectors>([&]<int i, int v>()
                               FERRY_INLINE { hn::StoreU(acc[i][v], d, tile.c + i * tile.c_stride + v * kStep); });
}

// Some columns of the last vector are beyond the edge.
template <int kRows, int kVectors>
HWY_INLINE void FinishEdge(const Tile& tile, const Limits& limits, Floats (&acc)[kRows][kVectors]) {
  const FloatTag d;
  for (int v = 0; v < kVectors; ++v) {
    int64_t first = v * static_cast<int64_t>(kLanes), count = tile.columns - first;
    if (count <= 0) break;
    const FloatMask mask =
        hn::FirstN(d, static_cast<size_t>(count < static_cast<int64_t>(kLanes) ? count : static_cast<int64_t>(kLanes)));
    for (int i = 0; i < kRows; ++i) {
      Floats x = acc[i][v];
      if (tile.activate_first) x = limits.Apply(x);
      if (tile.residual) x = hn::Add(x, LoadWhere(mask, d, tile.residual + i * tile.residual_stride + first));
      if (!tile.activate_first) x = limits.Apply(x);
      StoreWhere(x, mask, d, tile.c + i * tile.c_stride + first);
    }
  }
}

// The cheap activations are applied here; the others in a second pass over the finished rows (see RunStrip), which
// keeps this function, compiled for every number of rows, small.
template <int kRows, int kVectors>
HWY_NOINLINE void RunTile(Tile& tile) {
  constexpr int64_t kWidth = kVectors * static_cast<int64_t>(kLanes);
  const Limits limits(tile.activation);
  Floats acc[kRows][kVectors];
  if (tile.columns < kWidth) {
    BeginEdge<kRows, kVectors>(tile, acc);
    if (kHasHalves && kRows > kWideRows && tile.columns <= kWidth - static_cast<int64_t>(kLanes) / 2)
      Accumulate<kRows, kVectors, false, kHasHalves>(tile, acc);
    else
      Accumulate<kRows, kVectors, !kHasHalves>(tile, acc);
    Floats copy[kRows][kVectors];  // with indices that are not constant, so that the sums themselves stay in registers
    ForTile<kRows, kVectors>([&]<int i, int v>() FERRY_INLINE { copy[i][v] = acc[i][v]; });
    return FinishEdge<kRows, kVectors>(tile, limits, copy);
  }
  for (int64_t left = tile.count;; tile.Advance(kWidth)) {
    BeginWhole<kRows, kVectors>(tile, acc);
    Accumulate<kRows, kVectors>(tile, acc);
    FinishWhole<kRows, kVectors>(tile, limits, acc);
    if (--left == 0) return;
  }
}

template <int kVectors, int kMostRows, int kFewestRows = 1>
void RunRows(int rows, Tile& tile) {
  if constexpr (kMostRows > kFewestRows) {
    if (rows < kMostRows) return RunRows<kVectors, kMostRows - 1, kFewestRows>(rows, tile);
  }
  RunTile<kMostRows, kVectors>(tile);
}

// Applies an expensive activation (and a residual that comes after it) to finished rows while they are in cache.
void ActivateRows(const GatheredGemm& gemm, int64_t first_row, int64_t rows, int64_t first_column, int64_t columns) {
  const GemmEpilogue& epilogue = gemm.epilogue;
  for (int64_t i = first_row; i < first_row + rows; ++i) {
    float* c = gemm.c + i * gemm.c_stride + first_column;
    ActivateSpan(epilogue.activation, c, columns);
    if (!epilogue.residual || !epilogue.activate_first) continue;
    const float* residual = epilogue.residual + i * epilogue.residual_stride + first_column;
    for (int64_t n = 0; n < columns; ++n) c[n] += residual[n];
  }
}

// Part of the depth of a product, for panels packed with all of it.
struct DepthRange {
  int64_t first, count, total;
  bool continues;  // C holds what comes before
};

// Panels of this size stay in the second-level cache, beside the rows of A that pass by: processors with AVX-512 have
// one of a megabyte or more.
constexpr int64_t kStripBytes = (kLanes == 16 ? 384 : 208) * 1024;

// With few rows a tile takes more columns: more sums at once hide the latency of each. A single row waits for the
// weights, which come fastest from few places at once.
constexpr int kWideVectors = 4, kWidestVectors = kPanelVectors == 1 ? 4 : 8;

// Rows that lie multiples of 4 KB apart share a set of the first-level cache, which holds eight lines: then tiles are
// flat and wide, where the usual ones are higher than that.
constexpr bool kCanCollide = kTileRows > 8;
constexpr int kFlatRows = kCanCollide ? 6 : kWideRows;

constexpr int64_t kWholeTilePanels = kCanCollide && kPanelVectors < kWideVectors ? kWideVectors / kPanelVectors : 1;

bool Collide(const float* const* rows, int64_t count) {
  constexpr int64_t kSetBytes = 4096, kWays = 8;
  int64_t together = 0;
  for (int64_t i = 0; i < count && i < kTileRows; ++i) {
    const int64_t apart = reinterpret_cast<const char*>(rows[i]) - reinterpret_cast<const char*>(rows[0]);
    together += i == 0 || (apart != 0 && apart % kSetBytes == 0);
  }
  return together > kWays;
}

void RunColumns(int rows, int64_t vectors, Tile& tile) {
  if (rows == 1 && vectors == kWidestVectors) return RunTile<1, kWidestVectors>(tile);
  if (vectors == kWideVectors) return RunRows<kWideVectors, kFlatRows>(rows, tile);
  if constexpr (kEndVectors > 0) {
    if (vectors == kEndVectors) return RunRows<kEndVectors, kEndRows, kFewestEndRows>(rows, tile);
  }
  if (vectors == 2) return RunRows<2, kTileRows>(rows, tile);
  RunRows<1, kNarrowTileRows>(rows, tile);
}

// Columns [first, last) of B, which stay in the cache while all rows pass by, and what comes after them.
struct Strip {
  int64_t first, last;
  const float* next;  // null: nothing
  int64_t most_rows;  // of a tile

  int64_t padded() const { return (last + ferry::kPanelWidth - 1) / ferry::kPanelWidth * ferry::kPanelWidth; }
  // Vectors of the tile that begins at `column`.
  int64_t Vectors(int64_t column, int64_t rows) const {
    constexpr int64_t kStep = static_cast<int64_t>(kLanes);
    if (last - column <= kStep) return 1;
    const int64_t there = (padded() - column) / kStep;
    if (kEndVectors > 0 && most_rows == kEndRows) return kEndVectors;
    if (rows == 1 && there >= kWidestVectors) return kWidestVectors;
    if (rows <= (most_rows == kFlatRows ? kFlatRows : kWideRows) && there >= kWideVectors) return kWideVectors;
    return there < kTileVectors ? there : kTileVectors;
  }
};

// The next strip is fetched evenly meanwhile: weights mostly come from memory.
void RunStrip(const GatheredGemm& gemm, const DepthRange& range, const Strip& strip) {
  const GemmEpilogue& epilogue = gemm.epilogue;
  const bool unfinished = range.first + range.count < range.total;
  const bool second_pass = !unfinished && !IsLimit(epilogue.activation.kind);
  const bool residual_now = epilogue.residual && !unfinished && !(second_pass && epilogue.activate_first);
  const int64_t panel_stride = range.total * ferry::kPanelWidth;
  Tile tile{};
  tile.row_count = gemm.row_count;
  tile.taps = gemm.taps;
  tile.depth = gemm.depth;
  tile.offset = gemm.offset;
  tile.zeros = gemm.zeros;
  tile.panel_stride = panel_stride;
  tile.c_stride = gemm.c_stride;
  tile.residual_stride = epilogue.residual_stride;
  tile.activate_first = epilogue.activate_first;
  tile.continues = range.continues;
  if (!second_pass && !unfinished) tile.activation = epilogue.activation;
  // Tiles of nearly equal height.
  const int64_t tiles = (gemm.row_count + strip.most_rows - 1) / strip.most_rows;
  const int64_t share = static_cast<int64_t>(sizeof(float)) * ferry::kPanelWidth * range.count / tiles;
  if (strip.next) tile.ahead_step = share * kUnrolled / (range.count > 0 ? range.count : 1);
  for (int64_t index = 0, row = 0; index < tiles; ++index) {
    constexpr int64_t kTilesBetweenLooks = 32;
    if (index % kTilesBetweenLooks == kTilesBetweenLooks - 1) ferry::CheckRun();
    const int64_t rows = gemm.row_count / tiles + (index < gemm.row_count % tiles);
    tile.rows = gemm.rows + row;
    for (int64_t column = strip.first, vectors; column < strip.last; column += vectors * static_cast<int64_t>(kLanes)) {
      vectors = strip.Vectors(column, rows);
      const int64_t width = vectors * static_cast<int64_t>(kLanes);
      tile.columns = strip.last - column < width ? strip.last - column : width;
      tile.b = gemm.packed + column / ferry::kPanelWidth * panel_stride + range.first * ferry::kPanelWidth +
               column % ferry::kPanelWidth;
      const float* next = strip.next ? strip.next + (column - strip.first) / ferry::kPanelWidth * panel_stride : tile.b;
      tile.ahead = reinterpret_cast<const char*>(next) + (strip.next ? share * index : 0);
      tile.bias = epilogue.bias && range.first == 0 ? epilogue.bias + column : nullptr;
      tile.c = gemm.c + row * gemm.c_stride + column;
      tile.residual = residual_now ? epilogue.residual + row * epilogue.residual_stride + column : nullptr;
      const bool whole_panels = width % ferry::kPanelWidth == 0 && tile.columns == width;
      tile.count = whole_panels && vectors != kEndVectors ? (strip.last - column) / width : 1;
      RunColumns(static_cast<int>(rows), vectors, tile);
      column += (tile.count - 1) * width;
    }
    if (second_pass) ActivateRows(gemm, row, rows, strip.first, strip.last - strip.first);
    row += rows;
  }
}

void RunPanels(const GatheredGemm& gemm, const DepthRange& range) {
  if (gemm.row_count == 0) return;
  constexpr int64_t kWidth = ferry::kPanelWidth, kStep = static_cast<int64_t>(kLanes);
  const int64_t panel_bytes = static_cast<int64_t>(sizeof(float)) * kWidth * range.count;
  // Two or three tiles of rows: a panel is soon done with.
  const bool single = gemm.row_count > kTileRows && gemm.row_count <= 3 * kTileRows;
  const bool collide = kCanCollide && Collide(gemm.rows, gemm.row_count);
  const int64_t tile_width = kStep * (collide ? kWideVectors : kTileVectors);
  const int64_t least = tile_width > kWidth ? tile_width : kWidth;  // whole panels
  int64_t fit = panel_bytes < kStripBytes && !single ? kStripBytes / (panel_bytes > 0 ? panel_bytes : 1) * kWidth : 0;
  fit = fit > least ? fit / least * least : least;
  if (gemm.row_count == 1) fit = (gemm.columns + kWidth - 1) / kWidth * kWidth;  // nothing passes by twice
  const int64_t vectors = (gemm.columns + kStep - 1) / kStep;
  const bool odd_end =
      kEndVectors > 0 && gemm.row_count >= kFewestEndRows && vectors >= kEndVectors && vectors % 2 == 1 && !collide;
  const int64_t end = odd_end ? (vectors - kEndVectors) * kStep : gemm.columns;
  auto at = [&](int64_t column, int64_t depth) { return gemm.packed + column * range.total + depth * kWidth; };
  const float* next_depth = range.first + range.count < range.total ? at(0, range.first + range.count) : nullptr;
  for (int64_t column = 0; column < end; column += fit) {
    if (column > 0) ferry::CheckRun();
    const int64_t last = end - column < fit ? end : column + fit;
    const int64_t most_rows = last - column <= kStep ? kNarrowTileRows : collide ? kFlatRows : kTileRows;
    RunStrip(gemm, range, {column, last, last < gemm.columns ? at(last, range.first) : next_depth, most_rows});
  }
  if (odd_end) RunStrip(gemm, range, {end, gemm.columns, next_depth, kEndRows});
}

void Gathered(const GatheredGemm& gemm) {
  int64_t depth = gemm.taps * gemm.depth;
  RunPanels(gemm, {0, depth, depth, false});
}

void Plain(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const float* packed, int64_t columns,
           float* c, int64_t c_stride, const GemmEpilogue& epilogue) {
  constexpr int64_t kBlockRows = 480 / kTileRows * kTileRows, kBlockDepth = 1600;
  const float* pointers[kBlockRows];
  const int64_t depth_blocks = rows <= kTileRows || depth == 0 ? 1 : (depth + kBlockDepth - 1) / kBlockDepth;
  // C takes the sums of each block, so that a residual in its place must be the first of them.
  const bool sum_in_place = depth_blocks > 1 && epilogue.residual == c;
  for (int64_t row = 0; row < rows; row += kBlockRows) {
    int64_t count = rows - row < kBlockRows ? rows - row : kBlockRows;
    if (row > 0) ferry::CheckRun();
    for (int64_t block = 0; block < depth_blocks; ++block) {
      int64_t from = depth * block / depth_blocks, to = depth * (block + 1) / depth_blocks;
      for (int64_t i = 0; i < count; ++i) pointers[i] = a + (row + i) * a_stride + from;
      GatheredGemm gemm{pointers, count, 1, to - from, packed, columns, c + row * c_stride, c_stride, epilogue};
      if (epilogue.residual)
        gemm.epilogue.residual = sum_in_place ? nullptr : epilogue.residual + row * epilogue.residual_stride;
      RunPanels(gemm, {from, to - from, depth, block > 0 || sum_in_place});
    }
  }
}

}  // namespace

extern const GemmKernels kGemmKernels;
#define FERRY_TEXT_OF(x) #x
#define FERRY_TEXT(x) FERRY_TEXT_OF(x)
const GemmKernels kGemmKernels = {FERRY_TEXT(FERRY_ISA), kTileRows, kWholeTilePanels, Gathered, Plain};

}  // namespace ferry::FERRY_ISA
