#include "kernels/packed_gemm.h"
#include "kernels/simd/finish-inl.h"

namespace ferry::FERRY_ISA {
namespace {

// A tile of kRows × (kVectors · kLanes) of C stays in registers for the whole depth.
constexpr int kPanelVectors = static_cast<int>(ferry::kPanelWidth / kLanes);
constexpr int kTileVectors = kPanelVectors < 2 ? 1 : 2;
constexpr int kTileRows = kRegisters == 32 ? 14 : 6;
// Tiles of a single vector have registers for more rows, which hide the latency of additions.
constexpr int kNarrowTileRows = kTileRows < 8 ? 8 : kTileRows;

struct Tile {
  const float* const* rows;
  int64_t row_count;  // stride between taps in `rows`
  int64_t taps, depth;
  int64_t offset;
  const float* b;     // first vector of this tile's columns
  const char* ahead;  // what to fetch of the panel that comes next, and how many bytes of it for each depth
  int64_t ahead_step;
  int64_t b_stride;  // panel width
  float* c;
  int64_t c_stride;
  int64_t columns;  // that are really there, at most kVectors · kLanes
  const float* bias;
  const float* residual;
  int64_t residual_stride;
  Activation activation;
  bool activate_first;
};

template <int kRows, int kVectors>
HWY_INLINE void Accumulate(const Tile& tile, Floats (&acc)[kRows][kVectors]) {
  const FloatTag d;
  const float* HWY_RESTRICT b = tile.b;
  const char* ahead = tile.ahead;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const float* HWY_RESTRICT a[kRows];
    HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) a[i] = tile.rows[tap * tile.row_count + i] + tile.offset;
    for (int64_t k = 0; k < tile.depth; ++k) {
      Floats column[kVectors];
      HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) column[v] = hn::LoadU(d, b + v * static_cast<int>(kLanes));
      b += tile.b_stride;
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
      for (int v = 0; v < kVectors; ++v) acc[i][v] =
          hn::Add(acc[i][v], hn::LoadU(d, from + v * static_cast<int>(kLanes)));
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

template <int kRows, int kVectors>
HWY_NOINLINE void RunTile(const Tile& tile) {
  Floats acc[kRows][kVectors];
  HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::Zero(FloatTag());
  }
  Accumulate<kRows, kVectors>(tile, acc);
  // The cheap activations are applied here; the others in a second pass over the finished rows (see Gathered), which
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

// One panel of columns for all rows, in tiles of nearly equal height.
void RunPanel(const GatheredGemm& gemm, const float* panel, int64_t width, int64_t first, bool second_pass) {
  const GemmEpilogue& epilogue = gemm.epilogue;
  constexpr int64_t kStep = kTileVectors * static_cast<int64_t>(kLanes);
  const int64_t left = gemm.columns - first, columns = left < width ? left : width;
  const int64_t most_rows = left <= static_cast<int64_t>(kLanes) ? kNarrowTileRows : kTileRows;
  const int64_t tiles = (gemm.row_count + most_rows - 1) / most_rows;
  const int64_t depth = gemm.taps * gemm.depth;
  Tile tile{};
  tile.row_count = gemm.row_count, tile.taps = gemm.taps, tile.depth = gemm.depth, tile.offset = gemm.offset;
  tile.b_stride = width, tile.c_stride = gemm.c_stride, tile.residual_stride = epilogue.residual_stride;
  tile.activation = second_pass ? Activation{} : epilogue.activation;
  tile.activate_first = epilogue.activate_first;
  // The next panel is fetched evenly while this one is in use: weights mostly come from memory.
  const int64_t calls = tiles * ((columns + kStep - 1) / kStep);
  tile.ahead = reinterpret_cast<const char*>(panel + depth * width);
  tile.ahead_step = width * static_cast<int64_t>(sizeof(float)) / calls;
  const bool residual_now = epilogue.residual && !(second_pass && epilogue.activate_first);
  for (int64_t index = 0, row = 0; index < tiles; ++index) {
    int64_t rows = gemm.row_count / tiles + (index < gemm.row_count % tiles);
    tile.rows = gemm.rows + row;
    for (int64_t offset = 0; offset < columns; offset += kStep) {
      tile.b = panel + offset;
      tile.c = gemm.c + row * gemm.c_stride + first + offset;
      tile.columns = columns - offset < kStep ? columns - offset : kStep;
      tile.bias = epilogue.bias ? epilogue.bias + first + offset : nullptr;
      tile.residual = residual_now ? epilogue.residual + row * epilogue.residual_stride + first + offset : nullptr;
      if (kTileVectors == 2 && tile.columns > static_cast<int64_t>(kLanes))
        RunRows<2>(static_cast<int>(rows), tile);
      else
        RunRows<1>(static_cast<int>(rows), tile);
      tile.ahead += tile.ahead_step * depth;
    }
    if (second_pass) ActivateRows(gemm, row, rows, first, columns);
    row += rows;
  }
}

void Gathered(const GatheredGemm& gemm) {
  if (gemm.row_count == 0) return;
  const bool second_pass = !IsLimit(gemm.epilogue.activation.kind);
  const float* panel = gemm.packed;
  for (int64_t first = 0; first < gemm.columns; first += ferry::kPanelWidth) {
    int64_t width = gemm.columns - first > ferry::kPanelWidth / 2 ? ferry::kPanelWidth : ferry::kPanelWidth / 2;
    RunPanel(gemm, panel, width, first, second_pass);
    panel += gemm.taps * gemm.depth * width;
  }
}

void Plain(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const float* packed, int64_t columns,
           float* c, int64_t c_stride, const GemmEpilogue& epilogue) {
  // Rows are taken in blocks whose part of A stays in the second-level cache while all panels of B pass by.
  constexpr int64_t kBlockRows = 9 * kTileRows;
  const float* pointers[kBlockRows];
  for (int64_t row = 0; row < rows; row += kBlockRows) {
    int64_t count = rows - row < kBlockRows ? rows - row : kBlockRows;
    for (int64_t i = 0; i < count; ++i) pointers[i] = a + (row + i) * a_stride;
    GatheredGemm gemm{pointers, count, 1, depth, packed, columns, c + row * c_stride, c_stride, epilogue};
    if (epilogue.residual) gemm.epilogue.residual = epilogue.residual + row * epilogue.residual_stride;
    Gathered(gemm);
  }
}

}  // namespace

extern const GemmKernels kGemmKernels;
#define FERRY_TEXT_OF(x) #x
#define FERRY_TEXT(x) FERRY_TEXT_OF(x)
const GemmKernels kGemmKernels = {FERRY_TEXT(FERRY_ISA), kTileRows, Gathered, Plain};

}  // namespace ferry::FERRY_ISA
