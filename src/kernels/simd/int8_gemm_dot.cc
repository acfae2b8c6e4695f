// Products of bytes with the instruction that multiplies and adds four signed ones at once (SDOT, ARMv8.2). Highway 1.0
// has no name for it, so it is written out; the rest of the instruction set's sources stay without it.
#include "kernels/simd/int8_fours-inl.h"
#include "kernels/simd/int8_tile-inl.h"

#if HWY_TARGET == HWY_NEON && defined(__aarch64__)

namespace ferry::FERRY_ISA {
namespace {

#define FERRY_DOT __attribute__((target("arch=armv8.2-a+crypto+dotprod")))

constexpr int64_t kWidth = ferry::kInt8PanelWidth;
constexpr int kVectors = 4;  // of a panel: four columns of four depths each
// Four rows of four vectors of sums, and those of the weights: three quarters of the registers.
constexpr int kDotRows = 4;
constexpr int64_t kWaitingRows = 16 * kDotRows;

struct ByteTile {
  const uint8_t* rows[kDotRows];
  ferry::Int8Runs runs;
  const int8_t* panel;
  int32_t* sums;  // kWidth for each row
};

// Rows become signed by taking 128 off; what that takes off the sums is 128 times those of the weights.
template <int kRows>
HWY_NOINLINE FERRY_DOT void RunTile(const ByteTile& tile) {
  int32x4_t sums[kRows][kVectors], weights[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    weights[v] = vdupq_n_s32(0);
    for (int i = 0; i < kRows; ++i) sums[i][v] = vdupq_n_s32(0);
  }
  const int8x16_t ones = vdupq_n_s8(1);
  const int8_t* HWY_RESTRICT panel = tile.panel;
  const uint8_t* rows[kRows];
  for (int i = 0; i < kRows; ++i) rows[i] = tile.rows[i];
  for (int64_t run = 0; run < tile.runs.count; ++run) {
    for (int64_t depth = 0; depth < tile.runs.length; depth += kUnit, panel += kUnit * kWidth) {
      int8x16_t columns[kVectors];
      HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) {
        columns[v] = vld1q_s8(panel + 16 * v);
        weights[v] = vdotq_s32(weights[v], columns[v], ones);
      }
      HWY_UNROLL(4) for (int i = 0; i < kRows; ++i) {
        uint32_t four;
        __builtin_memcpy(&four, rows[i] + depth, sizeof four);
        const int8x16_t bytes = vreinterpretq_s8_u32(vdupq_n_u32(four ^ 0x80808080u));
        HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) sums[i][v] = vdotq_s32(sums[i][v], columns[v], bytes);
      }
    }
    for (int i = 0; i < kRows; ++i) rows[i] += tile.runs.stride;
  }
  for (int i = 0; i < kRows; ++i)
    for (int v = 0; v < kVectors; ++v)
      vst1q_s32(tile.sums + i * kWidth + 4 * v, vaddq_s32(sums[i][v], vshlq_n_s32(weights[v], 7)));
}

void RunRows(int64_t rows, const ByteTile& tile) {
  switch (rows) {
    case 1: return RunTile<1>(tile);
    case 2: return RunTile<2>(tile);
    case 3: return RunTile<3>(tile);
    default: return RunTile<kDotRows>(tile);
  }
}

struct Tiles {
  template <class RowAt>
  static void MultiplyRows(const ferry::Int8Product& product, const ferry::Int8Runs& runs, const RowAt& row_at);
};

template <class RowAt>
HWY_INLINE void Tiles::MultiplyRows(const ferry::Int8Product& product, const ferry::Int8Runs& runs,
                                    const RowAt& row_at) {
  HWY_ALIGN int32_t sums[kWaitingRows * kWidth];
  ByteTile tile{};
  tile.runs = runs;
  const int64_t panel_bytes = runs.count * runs.length * kWidth;
  for (int64_t column = 0; column < product.columns; column += kWidth) {
    const int64_t columns = product.columns - column < kWidth ? product.columns - column : kWidth;
    if (product.rows * panel_bytes >= kLongPanel * kWidth) ferry::CheckRun();
    tile.panel = static_cast<const int8_t*>(product.packed) + column / kWidth * panel_bytes;
    for (int64_t first = 0; first < product.rows; first += kWaitingRows) {
      const int64_t rows = product.rows - first < kWaitingRows ? product.rows - first : kWaitingRows;
      for (int64_t begin = 0; begin < rows; begin += kDotRows) {
        const int64_t count = rows - begin < kDotRows ? rows - begin : kDotRows;
        for (int64_t r = 0; r < count; ++r) tile.rows[r] = row_at(first + begin + r);
        tile.sums = sums + begin * kWidth;
        RunRows(count, tile);
      }
      for (int64_t n = 0; n < columns; n += kTileColumns)
        FinishBlock(product.out, first, rows, column + n, columns - n < kTileColumns ? columns - n : kTileColumns,
                    sums + n, kWidth);
    }
  }
}

}  // namespace

extern const Int8Kernels kInt8DotKernels;
const Int8Kernels kInt8DotKernels = KernelsOfFours<Tiles>(kDotRows);

}  // namespace ferry::FERRY_ISA

#endif
