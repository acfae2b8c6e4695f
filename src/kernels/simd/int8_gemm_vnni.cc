// Products of bytes with the instructions that multiply and add four of them at once (AVX-512 VNNI). Highway has no
// name for them, so they are written out; the rest of the instruction set's sources stay without them.
#include "kernels/int8_gemm.h"
#include "kernels/simd/int8_convert.h"
#include "kernels/simd/int8_tile-inl.h"

#if HWY_TARGET <= HWY_AVX3 && defined(__x86_64__)

#include <immintrin.h>

namespace ferry::FERRY_ISA {
namespace {

#define FERRY_VNNI __attribute__((target("avx512vnni")))

constexpr int64_t kUnit = 4;
constexpr int kTileRows = 12;
constexpr int64_t kChunkDepth = 1024;
using ByteTile = Tile<uint8_t>;

int64_t Padded(int64_t depth) { return (depth + kUnit - 1) / kUnit * kUnit; }

template <int kRows>
HWY_NOINLINE FERRY_VNNI void RunTiles(ByteTile tile, int64_t tiles) {
  for (; tiles > 0; --tiles, tile.a += kRows * tile.a_stride, tile.sums += kRows * tile.sums_stride) {
    __m512i sums[kRows];
    HWY_UNROLL(12)
    for (int i = 0; i < kRows; ++i)
      sums[i] = tile.adds ? _mm512_loadu_si512(tile.sums + i * tile.sums_stride) : _mm512_setzero_si512();
    const uint8_t* HWY_RESTRICT a = tile.a;
    const auto* HWY_RESTRICT b = static_cast<const int8_t*>(tile.b);
    const int64_t a_stride = tile.a_stride;
    for (int64_t depth = 0; depth < tile.depths; depth += kUnit, a += kUnit, b += kUnit * ferry::kInt8PanelWidth) {
      const __m512i columns = _mm512_loadu_si512(b);
      HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
        int32_t four;
        __builtin_memcpy(&four, a + i * a_stride, sizeof four);
        sums[i] = _mm512_dpbusd_epi32(sums[i], _mm512_set1_epi32(four), columns);
      }
    }
    HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) _mm512_storeu_si512(tile.sums + i * tile.sums_stride, sums[i]);
  }
}

void RunRows(int64_t rows, const ByteTile& tile) {
  ForTiles<kTileRows>(rows, tile, [](int64_t most, const ByteTile& part, int64_t tiles) {
    switch (most) {
      case 1: return RunTiles<1>(part, tiles);
      case 2: return RunTiles<2>(part, tiles);
      case 3: return RunTiles<3>(part, tiles);
      case 4: return RunTiles<4>(part, tiles);
      case 5: return RunTiles<5>(part, tiles);
      case 6: return RunTiles<6>(part, tiles);
      default: return RunTiles<kTileRows>(part, tiles);
    }
  });
}

void Multiply(const ferry::Int8Product& product) {
  ByteTile tile{};
  tile.a_stride = Padded(product.depth);
  auto as_it_is = [](const int8_t* panel, int64_t, const ByteTile&) { return panel; };
  ForRowBlocks(product, [&](int64_t row, int64_t rows) {
    for (int64_t column = 0; column < product.columns; column += ferry::kInt8PanelWidth)
      MultiplyPanel<int8_t, kUnit>(product, kChunkDepth, row, rows, column, tile, as_it_is, RunRows);
  });
}

void Prepare(const uint8_t* from, uint8_t flip, int64_t count, void* to) {
  auto* bytes = static_cast<uint8_t*>(to);
  if (flip == 0) {
    __builtin_memcpy(bytes, from, static_cast<size_t>(count));
    return;
  }
  for (int64_t i = 0; i < count; ++i) bytes[i] = from[i] ^ flip;
}

void Fill(uint8_t value, int64_t count, void* to) { __builtin_memset(to, value, static_cast<size_t>(count)); }

}  // namespace

extern const Int8Kernels kInt8VnniKernels;
const Int8Kernels kInt8VnniKernels = {kUnit,    kUnit,   1,         kTileRows,    Prepare,       Fill,
                                      Multiply, nullptr, Int8Range, Int8Quantize, Int8Dequantize};

}  // namespace ferry::FERRY_ISA

#endif
