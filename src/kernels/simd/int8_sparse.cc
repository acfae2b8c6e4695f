#include "kernels/simd/int8_bytes.h"
#include "kernels/simd/int8_tile-inl.h"

#if HWY_TARGET == HWY_AVX2

#include <immintrin.h>

// Behind a ReLU half of all numbers are 0, and mostly in the same channels for pixels that lie side by side. So tiles
// of some rows list the depths in which any of them is not 0, keep those numbers side by side, and leave the rest out.
// Any two depths of the list make a pair: weights are widened to a row for each depth and joined on the way.
namespace ferry::FERRY_ISA {
namespace {

constexpr int kRows = 6;  // of a tile; some have one less, so that none is left over
constexpr int64_t kWidth = ferry::kInt8PanelWidth;
// A panel's part of this depth, widened, takes half of the first-level cache.
constexpr int64_t kChunkDepth = 512;
// Tiles of fewer rows than these could need more than one that has one less.
constexpr int64_t kLeastRows = kRows * (kRows - 1), kMostChunks = 320;

HWY_INLINE __m256i LoadShorts(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

// Depths of a chunk that are left: `list` says where their weights are, in bytes.
struct Chunk {
  const int16_t* a;
  int64_t stride;
  const uint16_t* list;
  int64_t count;
};

template <int kTileRows>
HWY_NOINLINE void RunTile(const Chunk& chunk, const Tile<uint8_t>& tile) {
  __m256i sums[kTileRows][2];
  HWY_UNROLL(6) for (int i = 0; i < kTileRows; ++i) {
    HWY_UNROLL(2)
    for (int v = 0; v < 2; ++v)
      sums[i][v] = tile.adds ? LoadShorts(tile.sums + i * tile.sums_stride + 8 * v) : _mm256_setzero_si256();
  }
  const int16_t* HWY_RESTRICT const a = chunk.a;
  const int64_t stride = chunk.stride, count = chunk.count;
  const auto* const panel = static_cast<const uint8_t*>(tile.b);
  for (int64_t k = 0; k < count; k += 2) {
    const __m256i first = LoadShorts(panel + chunk.list[k]), second = LoadShorts(panel + chunk.list[k + 1]);
    const __m256i columns[2] = {_mm256_unpacklo_epi16(first, second), _mm256_unpackhi_epi16(first, second)};
    HWY_UNROLL(6) for (int i = 0; i < kTileRows; ++i) {
      int32_t both;
      __builtin_memcpy(&both, a + i * stride + k, sizeof both);
      const __m256i pair = _mm256_set1_epi32(both);
      HWY_UNROLL(2)
      for (int v = 0; v < 2; ++v) sums[i][v] = _mm256_add_epi32(sums[i][v], _mm256_madd_epi16(pair, columns[v]));
    }
  }
  HWY_UNROLL(6) for (int i = 0; i < kTileRows; ++i) {
    HWY_UNROLL(2)
    for (int v = 0; v < 2; ++v)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile.sums + i * tile.sums_stride + 8 * v), sums[i][v]);
  }
}

// A row of 16-bit weights for each depth, in the order in which joining two of them gives columns 0 to 7 and 8 to 15.
void WidenDepths(const int8_t* from, int64_t depths, int16_t* to) {
  // Bytes of two depths of four columns go to the upper halves of 16 bits.
  const __m256i first = _mm256_broadcastsi128_si256(
                    _mm_setr_epi8(-1, 0, -1, 4, -1, 8, -1, 12, -1, 1, -1, 5, -1, 9, -1, 13)),
                second = _mm256_broadcastsi128_si256(
                    _mm_setr_epi8(-1, 2, -1, 6, -1, 10, -1, 14, -1, 3, -1, 7, -1, 11, -1, 15));
  auto widen = [](__m256i units, __m256i order) { return _mm256_srai_epi16(_mm256_shuffle_epi8(units, order), 8); };
  for (int64_t k = 0; k < depths; k += kBytesUnit, from += kBytesUnit * kWidth) {
    const __m256i low = LoadShorts(from), high = LoadShorts(from + 32);
    for (const __m256i order : {first, second}) {
      const __m256i wide_low = widen(low, order), wide_high = widen(high, order);
      _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm256_unpacklo_epi64(wide_low, wide_high));
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + kWidth), _mm256_unpackhi_epi64(wide_low, wide_high));
      to += 2 * kWidth;
    }
  }
}

// Eight bytes, or four: depths come in multiples of four.
HWY_INLINE __m128i LoadEight(const uint8_t* from, int64_t count) {
  if (count == 8) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  int32_t four;
  __builtin_memcpy(&four, from, sizeof four);
  return _mm_cvtsi32_si128(four);
}

HWY_INLINE void StoreEight(__m128i shorts, int64_t count, void* to) {
  if (count == 8)
    _mm_storeu_si128(static_cast<__m128i*>(to), shorts);
  else
    _mm_storel_epi64(static_cast<__m128i*>(to), shorts);
}

// Collects the depths of some rows in which any is not 0, and says how many there are, with one more that makes them
// even. `to` has rows of `depths`.
template <int kTileRows>
int64_t Collect(const uint8_t* from, int64_t from_stride, int64_t depths, int16_t* to, uint16_t* list) {
  constexpr int kWeightBytesLog = 5;  // of a depth's row of weights
  int64_t made = 0;
  for (int64_t k = 0; k < depths; k += 8) {
    const int64_t count = depths - k < 8 ? depths - k : 8;
    __m128i bytes[kTileRows], any = _mm_setzero_si128();
    HWY_UNROLL(6) for (int i = 0; i < kTileRows; ++i) {
      bytes[i] = LoadEight(from + i * from_stride + k, count);
      any = _mm_or_si128(any, bytes[i]);
    }
    const int zeros = _mm_movemask_epi8(_mm_cmpeq_epi8(any, _mm_setzero_si128())), kept = ~zeros & 255;
    const __m128i numbers = _mm_cvtsi64_si128(static_cast<int64_t>(kSetBits.of[kept]));
    HWY_UNROLL(6)
    for (int i = 0; i < kTileRows; ++i)
      StoreEight(_mm_cvtepu8_epi16(_mm_shuffle_epi8(bytes[i], numbers)), count, to + i * depths + made);
    const __m128i places = _mm_add_epi16(_mm_cvtepu8_epi16(numbers), _mm_set1_epi16(static_cast<int16_t>(k)));
    StoreEight(_mm_slli_epi16(places, kWeightBytesLog), count, list + made);
    made += __builtin_popcount(static_cast<unsigned>(kept));
  }
  if (made % 2 == 0) return made;
  for (int i = 0; i < kTileRows; ++i) to[i * depths + made] = 0;
  list[made] = list[0];
  return made + 1;
}

// One block of rows.
class SparseProduct {
 public:
  explicit SparseProduct(const ferry::Int8Product& product)
      : product_(product),
        padded_((product.depth + kBytesUnit - 1) / kBytesUnit * kBytesUnit),
        chunks_((padded_ + kChunkDepth - 1) / kChunkDepth),
        tiles_((product.rows + kRows - 1) / kRows),
        full_(tiles_ - (tiles_ * kRows - product.rows)),
        a_(static_cast<const uint8_t*>(product.a)),
        rows_(static_cast<int16_t*>(product.scratch)),
        lists_(reinterpret_cast<uint16_t*>(rows_ + product.rows * padded_)) {}

  bool Pays() {
    constexpr int64_t kLeastColumns = 64;
    if (!rows_ || product_.is_signed || product_.rows < kLeastRows || product_.columns < kLeastColumns) return false;
    if (tiles_ * chunks_ > kMostChunks) return false;
    int64_t left = 0;
    for (int64_t tile : {int64_t{0}, tiles_ / 2, tiles_ - 1})
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) left += CollectChunk(tile, chunk);
    return 100 * left < 84 * 3 * padded_;
  }

  void Run() {
    HWY_ALIGN int16_t widened[kChunkDepth * kWidth];
    for (int64_t tile = 0; tile < tiles_; ++tile)
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) counts_[tile * chunks_ + chunk] = CollectChunk(tile, chunk);
    Tile<uint8_t> common{};
    common.a_stride = padded_;
    auto ready = [&](const int8_t* part, int64_t depths, const Tile<uint8_t>&) {
      WidenDepths(part, depths, widened);
      return widened;
    };
    auto run = [&](int64_t, const Tile<uint8_t>& tile) { RunChunk((tile.a - a_) / kChunkDepth, tile); };
    for (int64_t column = 0; column < product_.columns; column += kWidth)
      MultiplyPanel<int8_t, kBytesUnit>(product_, kChunkDepth, 0, product_.rows, column, common, ready, run);
  }

 private:
  int RowsOf(int64_t tile) const { return tile < full_ ? kRows : kRows - 1; }
  int64_t FirstRow(int64_t tile) const { return tile < full_ ? tile * kRows : tile * (kRows - 1) + full_; }
  int64_t DepthOf(int64_t chunk) const {
    const int64_t left = padded_ - chunk * kChunkDepth;
    return left < kChunkDepth ? left : kChunkDepth;
  }
  int16_t* RowsAt(int64_t tile, int64_t chunk) const {
    return rows_ + FirstRow(tile) * padded_ + RowsOf(tile) * chunk * kChunkDepth;
  }
  uint16_t* ListAt(int64_t tile, int64_t chunk) const { return lists_ + tile * padded_ + chunk * kChunkDepth; }

  int64_t CollectChunk(int64_t tile, int64_t chunk) const {
    const auto collect = tile < full_ ? Collect<kRows> : Collect<kRows - 1>;
    return collect(a_ + FirstRow(tile) * padded_ + chunk * kChunkDepth, padded_, DepthOf(chunk), RowsAt(tile, chunk),
                   ListAt(tile, chunk));
  }

  void RunChunk(int64_t chunk, Tile<uint8_t> part) const {
    for (int64_t tile = 0; tile < tiles_; ++tile) {
      const Chunk left{RowsAt(tile, chunk), DepthOf(chunk), ListAt(tile, chunk), counts_[tile * chunks_ + chunk]};
      RowsOf(tile) == kRows ? RunTile<kRows>(left, part) : RunTile<kRows - 1>(left, part);
      part.sums += RowsOf(tile) * part.sums_stride;
    }
  }

  const ferry::Int8Product& product_;
  const int64_t padded_, chunks_, tiles_, full_;
  const uint8_t* const a_;
  int16_t* const rows_;
  uint16_t* const lists_;
  int64_t counts_[kMostChunks];
};

}  // namespace

bool MultiplySparse(const ferry::Int8Product& product) {
  SparseProduct sparse(product);
  if (!sparse.Pays()) return false;
  sparse.Run();
  return true;
}

}  // namespace ferry::FERRY_ISA

#endif
