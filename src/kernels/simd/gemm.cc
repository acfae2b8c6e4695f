#include "kernels/packed_gemm.h"
#include "kernels/simd/activation-inl.h"

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
  const float* b;      // first vector of this tile's columns
  int64_t b_stride;    // panel width
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
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const float* HWY_RESTRICT a[kRows];
    HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) a[i] = tile.rows[tap * tile.row_count + i] + tile.offset;
    for (int64_t k = 0; k < tile.depth; ++k) {
      Floats column[kVectors];
      HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) column[v] = hn::LoadU(d, b + v * static_cast<int>(kLanes));
      b += tile.b_stride;
      HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) {
        Floats element = hn::Set(d, a[i][k]);
        HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::MulAdd(element, column[v], acc[i][v]);
      }
    }
  }
}

template <ActivationKind kKind, int kRows, int kVectors>
HWY_INLINE void Finish(const Tile& tile, Floats (&acc)[kRows][kVectors]) {
  const FloatTag d;
  const Floats alpha = hn::Set(d, tile.activation.alpha), beta = hn::Set(d, tile.activation.beta);
  for (int v = 0; v < kVectors; ++v) {
    int64_t first = v * static_cast<int64_t>(kLanes);
    if (first >= tile.columns) break;
    int64_t count = tile.columns - first;
    bool whole = count >= static_cast<int64_t>(kLanes);
    FloatMask mask = hn::FirstN(d, static_cast<size_t>(whole ? static_cast<int64_t>(kLanes) : count));
    Floats bias = !tile.bias ? hn::Zero(d) : whole ? hn::LoadU(d, tile.bias + first) : hn::MaskedLoad(mask, d, tile.bias + first);
    for (int i = 0; i < kRows; ++i) {
      Floats x = hn::Add(acc[i][v], bias);
      float* to = tile.c + i * tile.c_stride + first;
      if (tile.activate_first) x = Activate<kKind>(x, alpha, beta);
      if (tile.residual) {
        const float* from = tile.residual + i * tile.residual_stride + first;
        x = hn::Add(x, whole ? hn::LoadU(d, from) : hn::MaskedLoad(mask, d, from));
      }
      if (!tile.activate_first) x = Activate<kKind>(x, alpha, beta);
      if (whole)
        hn::StoreU(x, d, to);
      else
        hn::BlendedStore(x, mask, d, to);
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
  switch (tile.activation.kind) {
    case ActivationKind::kRelu: return Finish<ActivationKind::kRelu>(tile, acc);
    case ActivationKind::kClip: return Finish<ActivationKind::kClip>(tile, acc);
    default: return Finish<ActivationKind::kNone>(tile, acc);
  }
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

bool IsCheap(ActivationKind kind) {
  return kind == ActivationKind::kNone || kind == ActivationKind::kRelu || kind == ActivationKind::kClip;
}

// Applies an expensive activation (and a residual that comes after it) to finished rows while they are in cache.
void ActivateRows(const GatheredGemm& gemm, int64_t first_row, int64_t rows, int64_t first_column, int64_t columns) {
  const FloatTag d;
  const GemmEpilogue& epilogue = gemm.epilogue;
  WithActivation(epilogue.activation.kind, [&]<ActivationKind kKind>() {
    const Floats alpha = hn::Set(d, epilogue.activation.alpha), beta = hn::Set(d, epilogue.activation.beta);
    for (int64_t i = first_row; i < first_row + rows; ++i) {
      float* c = gemm.c + i * gemm.c_stride + first_column;
      const float* residual = epilogue.residual && epilogue.activate_first
                                  ? epilogue.residual + i * epilogue.residual_stride + first_column
                                  : nullptr;
      for (int64_t n = 0; n < columns; n += static_cast<int64_t>(kLanes)) {
        bool whole = columns - n >= static_cast<int64_t>(kLanes);
        FloatMask mask = hn::FirstN(d, static_cast<size_t>(whole ? static_cast<int64_t>(kLanes) : columns - n));
        Floats x = whole ? hn::LoadU(d, c + n) : hn::MaskedLoad(mask, d, c + n);
        x = Activate<kKind>(x, alpha, beta);
        if (residual) x = hn::Add(x, whole ? hn::LoadU(d, residual + n) : hn::MaskedLoad(mask, d, residual + n));
        if (whole)
          hn::StoreU(x, d, c + n);
        else
          hn::BlendedStore(x, mask, d, c + n);
      }
    }
  });
}

void Gathered(const GatheredGemm& gemm) {
  const GemmEpilogue& epilogue = gemm.epilogue;
  bool second_pass = !IsCheap(epilogue.activation.kind);
  int64_t total_depth = gemm.taps * gemm.depth;
  const float* panel = gemm.packed;
  for (int64_t first = 0; first < gemm.columns; first += ferry::kPanelWidth) {
    int64_t left = gemm.columns - first;
    int64_t width = left > ferry::kPanelWidth / 2 ? ferry::kPanelWidth : ferry::kPanelWidth / 2;
    int64_t step_rows = left <= static_cast<int64_t>(kLanes) ? kNarrowTileRows : kTileRows;
    for (int64_t row = 0; row < gemm.row_count; row += step_rows) {
      int rows = static_cast<int>(gemm.row_count - row < step_rows ? gemm.row_count - row : step_rows);
      Tile tile{gemm.rows + row, gemm.row_count, gemm.taps, gemm.depth, gemm.offset, panel, width, nullptr, gemm.c_stride, 0,
                nullptr, nullptr, epilogue.residual_stride, {}, epilogue.activate_first};
      tile.activation = second_pass ? Activation{} : epilogue.activation;
      int64_t step = kTileVectors * static_cast<int64_t>(kLanes);
      for (int64_t offset = 0; offset < width && first + offset < gemm.columns; offset += step) {
        int64_t column = first + offset;
        tile.b = panel + offset;
        tile.c = gemm.c + row * gemm.c_stride + column;
        tile.columns = gemm.columns - column < step ? gemm.columns - column : step;
        tile.bias = epilogue.bias ? epilogue.bias + column : nullptr;
        bool residual_now = epilogue.residual && !(second_pass && epilogue.activate_first);
        tile.residual = residual_now ? epilogue.residual + row * epilogue.residual_stride + column : nullptr;
        if (kTileVectors == 2 && tile.columns > static_cast<int64_t>(kLanes))
          RunRows<2>(rows, tile);
        else
          RunRows<1>(rows, tile);
      }
      if (second_pass) ActivateRows(gemm, row, rows, first, left < ferry::kPanelWidth ? left : ferry::kPanelWidth);
    }
    panel += total_depth * width;
  }
}

void Plain(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const float* packed, int64_t columns, float* c,
           int64_t c_stride, const GemmEpilogue& epilogue) {
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
