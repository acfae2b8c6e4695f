#include "kernels/packed_gemm.h"
#include "kernels/simd/finish-inl.h"

namespace ferry::FERRY_ISA {
namespace {

// A tile of kRows × (kVectors · kLanes) of C stays in registers for the whole depth.
constexpr int kPanelVectors = static_cast<int>(ferry::kPanelWidth / kLanes);
constexpr int kTileVectors = 2;
constexpr int kTileRows = kRegisters == 32 ? 14 : 6;
// Tiles of a single vector have registers for more rows, which hide the latency of additions.
constexpr int kNarrowTileRows = kTileRows < 8 ? 8 : kTileRows;

struct Tile {
  const float* const* rows;
  int64_t row_count;  // stride between taps in `rows`
  int64_t taps, depth;
  int64_t offset;
  const float* b;        // first vector of this tile's columns
  int64_t panel_stride;  // from one panel to the next
  const char* ahead;     // what to fetch of the panel that comes next, and how many bytes of it for each depth
  int64_t ahead_step;
  float* c;
  int64_t c_stride;
  int64_t columns;  // that are really there, at most kVectors · kLanes
  const float* bias;
  const float* residual;
  int64_t residual_stride;
  Activation activation;
  bool activate_first;
  bool continues;  // C holds the sum over the depths before these
};

template <int kRows, int kVectors>
HWY_INLINE void Accumulate(const Tile& tile, Floats (&acc)[kRows][kVectors]) {
  const FloatTag d;
  constexpr int kPanels = (kVectors + kPanelVectors - 1) / kPanelVectors;
  const float* HWY_RESTRICT b[kPanels];
  HWY_UNROLL(2) for (int p = 0; p < kPanels; ++p) b[p] = tile.b + p * tile.panel_stride;
  const char* ahead = tile.ahead;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const float* HWY_RESTRICT a[kRows];
    HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) a[i] = tile.rows[tap * tile.row_count + i] + tile.offset;
    for (int64_t k = 0; k < tile.depth; ++k) {
      Floats column[kVectors];
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v)
        column[v] = hn::LoadU(d, b[v / kPanelVectors] + v % kPanelVectors * static_cast<int>(kLanes));
      HWY_UNROLL(2) for (int p = 0; p < kPanels; ++p) b[p] += ferry::kPanelWidth;
      if constexpr (kVectors > 1) {
        __builtin_prefetch(ahead, 0, 2);
        ahead += tile.ahead_step;
      }
      HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) {
        Floats element = hn::Set(d, a[i][k]);
        HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::MulAdd(element, column[v], acc[i][v]);
      }
    }
  }
}

// All columns of the tile are there.
template <int kRows, int kVectors>
HWY_INLINE void FinishWhole(const Tile& tile, Floats (&acc)[kRows][kVectors]) {
  const FloatTag d;
  const Limits limits(tile.activation);
  if (tile.bias) {
    HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) {
      const Floats bias = hn::LoadU(d, tile.bias + v * static_cast<int>(kLanes));
      HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) acc[i][v] = hn::Add(acc[i][v], bias);
    }
  }
  if (tile.activate_first) {
    HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) {
      HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) acc[i][v] = limits.Apply(acc[i][v]);
    }
  }
  if (tile.residual) {
    HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) {
      const float* from = tile.residual + i * tile.residual_stride;
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v)
        acc[i][v] = hn::Add(acc[i][v], hn::LoadU(d, from + v * static_cast<int>(kLanes)));
    }
  }
  HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) {
    float* to = tile.c + i * tile.c_stride;
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(tile.activate_first ? acc[i][v] : limits.Apply(acc[i][v]), d, to + v * static_cast<int>(kLanes));
  }
}

// Some columns of the last vector are beyond the edge.
template <int kRows, int kVectors>
HWY_INLINE void FinishEdge(const Tile& tile, Floats (&acc)[kRows][kVectors]) {
  const FloatTag d;
  const Limits limits(tile.activation);
  for (int v = 0; v < kVectors; ++v) {
    int64_t first = v * static_cast<int64_t>(kLanes), count = tile.columns - first;
    if (count <= 0) break;
    const FloatMask mask =
        hn::FirstN(d, static_cast<size_t>(count < static_cast<int64_t>(kLanes) ? count : static_cast<int64_t>(kLanes)));
    const Floats bias = tile.bias ? hn::MaskedLoad(mask, d, tile.bias + first) : hn::Zero(d);
    for (int i = 0; i < kRows; ++i) {
      Floats x = hn::Add(acc[i][v], bias);
      if (tile.activate_first) x = limits.Apply(x);
      if (tile.residual) x = hn::Add(x, hn::MaskedLoad(mask, d, tile.residual + i * tile.residual_stride + first));
      if (!tile.activate_first) x = limits.Apply(x);
      hn::BlendedStore(x, mask, d, tile.c + i * tile.c_stride + first);
    }
  }
}

// The sums so far; columns that are not there start from zero.
template <int kRows, int kVectors>
HWY_INLINE void Resume(const Tile& tile, Floats (&acc)[kRows][kVectors]) {
  const FloatTag d;
  const bool whole = tile.columns >= kVectors * static_cast<int64_t>(kLanes);
  HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) {
    int64_t count = tile.columns - v * static_cast<int64_t>(kLanes);
    FloatMask mask = hn::FirstN(d, static_cast<size_t>(count < 0 ? 0 : count));
    HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) {
      const float* from = tile.c + i * tile.c_stride + v * static_cast<int64_t>(kLanes);
      acc[i][v] = whole ? hn::LoadU(d, from) : hn::MaskedLoad(mask, d, from);
    }
  }
}

template <int kRows, int kVectors>
HWY_NOINLINE void RunTile(const Tile& tile) {
  Floats acc[kRows][kVectors];
  HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::Zero(FloatTag());
  }
  if (tile.continues) Resume<kRows, kVectors>(tile, acc);
  Accumulate<kRows, kVectors>(tile, acc);
  // The cheap activations are applied here; the others in a second pass over the finished rows (see RunBlock), which
  // keeps this function, compiled for every number of rows, small.
  if (tile.columns == kVectors * static_cast<int64_t>(kLanes))
    FinishWhole<kRows, kVectors>(tile, acc);
  else
    FinishEdge<kRows, kVectors>(tile, acc);
}

template <int kVectors>
void RunRows(int rows, const Tile& tile) {
  switch (rows) {
    case 1: return RunTile<1, kVectors>(tile);
    case 2: return RunTile<2, kVectors>(tile);
    case 3: return RunTile<3, kVectors>(tile);
    case 4: return RunTile<4, kVectors>(tile);
    case 5: return RunTile<5, kVectors>(tile);
    case 6: return RunTile<6, kVectors>(tile);
    default: break;
  }
  if constexpr (kTileRows > 6 || kVectors == 1) {
    if (rows == 7) return RunTile<7, kVectors>(tile);
    if (rows == 8) return RunTile<8, kVectors>(tile);
  }
  if constexpr (kTileRows > 6) {
    switch (rows) {
      case 9: return RunTile<9, kVectors>(tile);
      case 10: return RunTile<10, kVectors>(tile);
      case 11: return RunTile<11, kVectors>(tile);
      case 12: return RunTile<12, kVectors>(tile);
      case 13: return RunTile<13, kVectors>(tile);
      default: return RunTile<14, kVectors>(tile);
    }
  }
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

// With few rows a tile takes more columns: more sums at once hide the latency of each.
constexpr int kWideVectors = 4;
constexpr int kWideRows = 2;

void RunColumns(int rows, int64_t vectors, const Tile& tile) {
  if (vectors > 2) return rows == 1 ? RunTile<1, kWideVectors>(tile) : RunTile<2, kWideVectors>(tile);
  if (vectors == 2) return RunRows<2>(rows, tile);
  RunRows<1>(rows, tile);
}

// All columns of a few rows, or of many.
void RunBlock(const GatheredGemm& gemm, const DepthRange& range, int64_t first_row, int64_t row_count) {
  const GemmEpilogue& epilogue = gemm.epilogue;
  const bool unfinished = range.first + range.count < range.total;
  const bool second_pass = !unfinished && !IsLimit(epilogue.activation.kind);
  const bool residual_now = epilogue.residual && !unfinished && !(second_pass && epilogue.activate_first);
  const int64_t panel_stride = range.total * ferry::kPanelWidth;
  const int64_t padded = (gemm.columns + ferry::kPanelWidth - 1) / ferry::kPanelWidth * ferry::kPanelWidth;
  Tile tile{};
  tile.row_count = gemm.row_count;
  tile.taps = gemm.taps;
  tile.depth = gemm.depth;
  tile.offset = gemm.offset;
  tile.panel_stride = panel_stride;
  tile.c_stride = gemm.c_stride;
  tile.residual_stride = epilogue.residual_stride;
  tile.activate_first = epilogue.activate_first;
  tile.continues = range.continues;
  if (!second_pass && !unfinished) tile.activation = epilogue.activation;
  int64_t step = 0;
  for (int64_t column = 0; column < gemm.columns; column += step) {
    int64_t vectors = (padded - column) / static_cast<int64_t>(kLanes);
    if (row_count <= kWideRows && vectors >= kWideVectors)
      vectors = kWideVectors;
    else if (vectors > kTileVectors)
      vectors = kTileVectors;
    step = vectors * static_cast<int64_t>(kLanes);
    tile.columns = gemm.columns - column < step ? gemm.columns - column : step;
    tile.b = gemm.packed + column / ferry::kPanelWidth * panel_stride + range.first * ferry::kPanelWidth +
             column % ferry::kPanelWidth;
    tile.bias = epilogue.bias && !unfinished ? epilogue.bias + column : nullptr;
    if (tile.columns <= static_cast<int64_t>(kLanes)) vectors = 1;
    // Tiles of nearly equal height. The next panel is fetched evenly meanwhile: weights mostly come from memory.
    const int64_t most_rows = vectors == 1 ? kNarrowTileRows : kTileRows,
                  tiles = (row_count + most_rows - 1) / most_rows;
    tile.ahead = reinterpret_cast<const char*>(tile.b + panel_stride);
    tile.ahead_step = static_cast<int64_t>(sizeof(float)) * ferry::kPanelWidth / tiles;
    for (int64_t index = 0, row = first_row; index < tiles; ++index) {
      const int64_t rows = row_count / tiles + (index < row_count % tiles);
      tile.rows = gemm.rows + row;
      tile.c = gemm.c + row * gemm.c_stride + column;
      tile.residual = residual_now ? epilogue.residual + row * epilogue.residual_stride + column : nullptr;
      RunColumns(static_cast<int>(rows), vectors, tile);
      if (second_pass) ActivateRows(gemm, row, rows, column, tile.columns);
      tile.ahead += tile.ahead_step * range.count;
      row += rows;
    }
  }
}

// Where all of B stays in the second-level cache, rows go outside: results are then written from left to right.
void RunPanels(const GatheredGemm& gemm, const DepthRange& range) {
  if (gemm.row_count == 0) return;
  constexpr int64_t kSmall = 48 * 1024;
  if (range.count * gemm.columns > kSmall) return RunBlock(gemm, range, 0, gemm.row_count);
  const int64_t rows = gemm.columns <= static_cast<int64_t>(kLanes) ? kNarrowTileRows : kTileRows;
  for (int64_t row = 0; row < gemm.row_count; row += rows)
    RunBlock(gemm, range, row, gemm.row_count - row < rows ? gemm.row_count - row : rows);
}

void Gathered(const GatheredGemm& gemm) {
  int64_t depth = gemm.taps * gemm.depth;
  RunPanels(gemm, {0, depth, depth, false});
}

void Plain(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const float* packed, int64_t columns,
           float* c, int64_t c_stride, const GemmEpilogue& epilogue) {
  // A block of A stays in the second-level cache while all panels of B pass by; the part of a panel that a tile reads
  // stays in the first-level cache while the rows of the block pass by.
  constexpr int64_t kBlockRows = 192 / kTileRows * kTileRows, kBlockDepth = 320;
  const float* pointers[kBlockRows];
  // C takes the sums of each block, so that a residual in its place must be the first of them.
  const bool sum_in_place = epilogue.residual && epilogue.residual == c;
  const int64_t depth_blocks = rows <= kTileRows || depth == 0 ? 1 : (depth + kBlockDepth - 1) / kBlockDepth;
  for (int64_t row = 0; row < rows; row += kBlockRows) {
    int64_t count = rows - row < kBlockRows ? rows - row : kBlockRows;
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
const GemmKernels kGemmKernels = {FERRY_TEXT(FERRY_ISA), kTileRows, Gathered, Plain};

}  // namespace ferry::FERRY_ISA
