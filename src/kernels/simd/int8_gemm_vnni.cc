// Products of bytes with the instructions that multiply and add four of them at once (AVX-512 VNNI). Highway has no
// name for them, so they are written out; the rest of the instruction set's sources stay without them.
#include "kernels/simd/int8_fours-inl.h"
#include "kernels/simd/int8_tile-inl.h"

#if HWY_TARGET <= HWY_AVX3 && defined(__x86_64__)

#include <immintrin.h>

namespace ferry::FERRY_ISA {
namespace {

#define FERRY_VNNI __attribute__((target("avx512vnni")))

constexpr int64_t kWidth = ferry::kInt8PanelWidth;
// Six rows and four panels fill the registers with sums. A row's bytes are read once for all four, a panel's for all
// six: fewer reads than multiplications, where one panel would take as many.
constexpr int kTileRows = 6, kMostPanels = 4;
// Sums of this many rows wait until they are finished together.
constexpr int64_t kWaitingRows = 8 * kTileRows, kSumsStride = kMostPanels * kWidth;

struct ByteTile {
  const uint8_t* rows[kTileRows];
  ferry::Int8Runs runs;
  const int8_t* panel;
  int64_t panel_bytes;
  int64_t ahead;  // from what is read to what is fetched into the second-level cache meanwhile
  int32_t* sums;
  int64_t sums_stride;
};

// What lies in four bytes: four numbers, or two of 16 bits.
template <bool kShorts>
HWY_INLINE FERRY_VNNI __m512i AddProducts(__m512i sum, __m512i row, __m512i columns) {
  if constexpr (kShorts) return _mm512_dpwssd_epi32(sum, row, columns);
  return _mm512_dpbusd_epi32(sum, row, columns);
}

template <int kRows, int kPanels, bool kShorts>
HWY_NOINLINE FERRY_VNNI void RunTile(const ByteTile& tile) {
  // With a single panel each sum would wait for the one before it, so that there are two of each.
  constexpr int kChains = kPanels == 1 ? 2 : 1;
  __m512i sums[kChains][kRows][kPanels];
  for (auto& chain : sums)
    for (auto& row : chain)
      for (__m512i& sum : row) sum = _mm512_setzero_si512();
  const int8_t* HWY_RESTRICT panel = tile.panel;
  const uint8_t* rows[kRows];
  for (int i = 0; i < kRows; ++i) rows[i] = tile.rows[i];
  auto add_products = [&](int64_t depth, int chain) __attribute__((always_inline)) FERRY_VNNI {
    __m512i columns[kPanels];
    HWY_UNROLL(4) for (int p = 0; p < kPanels; ++p) columns[p] = _mm512_loadu_si512(panel + p * tile.panel_bytes);
    __builtin_prefetch(panel + tile.ahead, 0, 2);
    panel += kUnit * kWidth;
    HWY_UNROLL(6) for (int i = 0; i < kRows; ++i) {
      int32_t four;
      __builtin_memcpy(&four, rows[i] + depth, sizeof four);
      const __m512i bytes = _mm512_set1_epi32(four);
      HWY_UNROLL(4)
      for (int p = 0; p < kPanels; ++p) sums[chain][i][p] = AddProducts<kShorts>(sums[chain][i][p], bytes, columns[p]);
    }
  };
  for (int64_t run = 0; run < tile.runs.count; ++run) {
    int64_t depth = 0;
    if constexpr (kChains == 2) {
      for (; depth + 2 * kUnit <= tile.runs.length; depth += 2 * kUnit) {
        add_products(depth, 0);
        add_products(depth + kUnit, 1);
      }
    }
    for (; depth < tile.runs.length; depth += kUnit) add_products(depth, 0);
    for (int i = 0; i < kRows; ++i) rows[i] += tile.runs.stride;
  }
  HWY_UNROLL(6) for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(4) for (int p = 0; p < kPanels; ++p) {
      __m512i sum = sums[0][i][p];
      if constexpr (kChains == 2) sum = _mm512_add_epi32(sum, sums[1][i][p]);
      _mm512_storeu_si512(tile.sums + i * tile.sums_stride + p * kWidth, sum);
    }
  }
}

template <int kPanels, bool kShorts>
void RunRows(int64_t rows, const ByteTile& tile) {
  switch (rows) {
    case 1: return RunTile<1, kPanels, kShorts>(tile);
    case 2: return RunTile<2, kPanels, kShorts>(tile);
    case 3: return RunTile<3, kPanels, kShorts>(tile);
    case 4: return RunTile<4, kPanels, kShorts>(tile);
    case 5: return RunTile<5, kPanels, kShorts>(tile);
    default: return RunTile<kTileRows, kPanels, kShorts>(tile);
  }
}

// What FinishRows makes of bytes, for several panels at once; not kWhole: the last columns are not there.
template <int kPanels, bool kWhole>
void FinishBytes(const ferry::Int8Output& out, int64_t row, int64_t rows, int64_t column, int64_t columns,
                 const int32_t* sums) {
  const int32_t shifted = out.low < 0 || out.high < 0 ? 128 : 0;
  const __m512 high = _mm512_set1_ps(static_cast<float>(out.high - out.zero));
  const __m512i zero = _mm512_set1_epi16(static_cast<int16_t>(out.zero + shifted)),
                least = _mm512_set1_epi8(static_cast<char>(out.low + shifted)),
                flip = _mm512_set1_epi8(static_cast<char>(shifted));
  // Packing goes by blocks of 128 bits.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i offset[kPanels];
  __m512 factor[kPanels], shift[kPanels];
  for (int p = 0; p < kPanels; ++p) {
    offset[p] = out.offset ? _mm512_loadu_si512(out.offset + column + p * kWidth) : _mm512_setzero_si512();
    factor[p] = _mm512_loadu_ps(out.factor + column + p * kWidth);
    shift[p] = out.shift ? _mm512_loadu_ps(out.shift + column + p * kWidth) : _mm512_setzero_ps();
  }
  uint8_t* to = static_cast<uint8_t*>(out.c) + row * out.stride + column;
  for (int64_t i = 0; i < rows; ++i, sums += kSumsStride, to += out.stride) {
    __m512i whole[kPanels];
    HWY_UNROLL(4) for (int p = 0; p < kPanels; ++p) {
      const __m512i sum = _mm512_add_epi32(_mm512_load_si512(sums + p * kWidth), offset[p]);
      const __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), factor[p], shift[p]);
      whole[p] = _mm512_cvtps_epi32(_mm512_min_ps(value, high));
    }
    // What is too small stays so when it is converted and packed.
    const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1 % kPanels]), zero),
                  second = _mm512_adds_epi16(_mm512_packs_epi32(whole[2 % kPanels], whole[3 % kPanels]), zero);
    const __m512i packed = _mm512_max_epu8(_mm512_packus_epi16(first, second), least);
    const __m512i bytes = _mm512_xor_si512(_mm512_permutexvar_epi32(order, packed), flip);
    if constexpr (!kWhole)
      _mm512_mask_storeu_epi8(to, (__mmask64{1} << columns) - 1, bytes);
    else if constexpr (kPanels == 4)
      _mm512_storeu_si512(to, bytes);
    else if constexpr (kPanels == 2)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(bytes));
    else
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_castsi512_si128(bytes));
  }
}

void Finish(const ferry::Int8Output& out, int64_t row, int64_t rows, int64_t column, int64_t columns,
            const int32_t* sums) {
  if (out.kind == ferry::Int8Output::Kind::kBytes && !out.row_term) {
    const auto finish = columns == 4 * kWidth   ? FinishBytes<4, true>
                        : columns > 2 * kWidth  ? FinishBytes<4, false>
                        : columns == 2 * kWidth ? FinishBytes<2, true>
                        : columns > kWidth      ? FinishBytes<2, false>
                        : columns == kWidth     ? FinishBytes<1, true>
                                                : FinishBytes<1, false>;
    return finish(out, row, rows, column, columns, sums);
  }
  for (int64_t n = 0; n < columns; n += kWidth)
    FinishBlock(out, row, rows, column + n, columns - n < kWidth ? columns - n : kWidth, sums + n, kSumsStride);
}

struct Tiles {
  template <bool kShorts = false, class RowAt>
  static void MultiplyRows(const ferry::Int8Product& product, const ferry::Int8Runs& runs, const RowAt& row_at);
};

template <bool kShorts, class RowAt>
HWY_INLINE void Tiles::MultiplyRows(const ferry::Int8Product& product, const ferry::Int8Runs& runs,
                                    const RowAt& row_at) {
  HWY_ALIGN int32_t waiting[kWaitingRows * kSumsStride];
  const bool takes_sums = TakesSums(product.out);
  ByteTile tile{};
  tile.runs = runs;
  tile.panel_bytes = runs.count * runs.length * kWidth;
  for (int64_t column = 0; column < product.columns;) {
    const int64_t left = product.columns - column;
    if (product.rows * tile.panel_bytes >= kLongPanel * kWidth) ferry::CheckRun();
    const int64_t panels = left > 3 * kWidth ? 4 : left > kWidth ? 2 : 1;
    const auto run = panels == 4 ? RunRows<4, kShorts> : panels == 2 ? RunRows<2, kShorts> : RunRows<1, kShorts>;
    const bool stays = takes_sums && left >= panels * kWidth;
    tile.sums_stride = stays ? product.out.stride : kSumsStride;
    tile.panel = static_cast<const int8_t*>(product.packed) + column / kWidth * tile.panel_bytes;
    int64_t fetched = 0;
    for (int64_t first = 0; first < product.rows; first += kWaitingRows) {
      const int64_t rows = product.rows - first < kWaitingRows ? product.rows - first : kWaitingRows;
      int32_t* const sums =
          stays ? static_cast<int32_t*>(product.out.c) + first * product.out.stride + column : waiting;
      // A last tile of one row would take as long as one of four.
      const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t begin = rows * i / tiles, count = rows * (i + 1) / tiles - begin;
        for (int64_t r = 0; r < count; ++r) tile.rows[r] = row_at(first + begin + r);
        tile.sums = sums + begin * tile.sums_stride;
        // What is read next comes from far away: each of the first tiles fetches one of the next panels.
        tile.ahead = fetched < panels ? (panels + fetched++) * tile.panel_bytes : 0;
        run(count, tile);
      }
      if (!stays) Finish(product.out, first, rows, column, left < panels * kWidth ? left : panels * kWidth, sums);
    }
    column += panels * kWidth;
  }
}

void MultiplyShorts(const ferry::Int8Product& product) {
  const int64_t row_bytes = Padded(product.depth) * 2;
  const auto* a = static_cast<const uint8_t*>(product.a);
  Tiles::MultiplyRows<true>(product, {nullptr, 1, row_bytes, 0}, [=](int64_t row) { return a + row * row_bytes; });
}

constexpr Int8Kernels WithShorts(Int8Kernels kernels) {
  kernels.multiply_shorts = MultiplyShorts;
  return kernels;
}

}  // namespace

extern const Int8Kernels kInt8VnniKernels;
const Int8Kernels kInt8VnniKernels = WithShorts(KernelsOfFours<Tiles>(kTileRows));

}  // namespace ferry::FERRY_ISA

#endif
