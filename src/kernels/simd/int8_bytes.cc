#include "kernels/simd/int8_bytes.h"

#include "kernels/simd/int8_tile-inl.h"

#if HWY_TARGET == HWY_AVX2

#include <immintrin.h>

// Bytes multiply and add in three instructions for 32 products (the others take four, and more loads), but pairs of
// products are added in 16 bits that saturate: 255 · 127 twice is too much. It is not for most pairs of numbers that
// are met, because most lie near the zero point. So the rows of each tile are looked through once, for all columns:
// four depths in which no pair of any row could saturate, whatever the weights, take the short way; the others are
// widened. Where these are many, all are widened beforehand, which takes fewer instructions than on the way. Eight
// depths whose pairs can even be added to each other in 16 bits take five instructions for 64 products. Rows near 0 are
// unsigned bytes, those around 128 signed ones, with weights that are moved up by 128.
namespace ferry::FERRY_ISA {
namespace {

using ByteTile = Tile<uint8_t>;
constexpr int kRows = kBytesTileRows;
constexpr int64_t kWidth = ferry::kInt8PanelWidth;
// A panel's part of this depth is half of the first-level cache, and its units are counted by a byte.
constexpr int64_t kChunkDepth = 1024, kChunkUnits = kChunkDepth / kBytesUnit;
// Finding doubles takes as long as fewer columns gain by them.
constexpr int64_t kDoublesColumns = 128, kDoublesUnits = 16;
// Looking through rows takes longer than one panel gains by it, or than any do by so few units.
constexpr int64_t kFewUnits = 8;
// Room for the units of all tiles of a block of rows.
constexpr int64_t kListBytes = 40 << 10, kMostChunks = kListBytes / kChunkUnits + kBlockRows / kRows;

// How many units of a list are doubles (of which the first is named), and how many of the others are safe.
struct Sorted {
  uint16_t doubles, safe;
};

// The units of a chunk of tile after tile: doubles first in every list, then safe ones, then the others. Signed rows
// add `terms` to their sums.
struct Units {
  const uint8_t* list;
  const Sorted* sorted;
  const int32_t* terms;
  int64_t all, list_stride, chunks;
  bool wants_doubles;

  HWY_INLINE void Next() { list += list_stride, sorted += chunks, terms += chunks * kRows; }
  const uint8_t* safe() const { return list + sorted->doubles; }
  const uint8_t* others() const { return safe() + sorted->safe; }
  const uint8_t* end() const { return list + all - sorted->doubles; }
};

HWY_INLINE __m256i Spread(const uint8_t* four) {
  int32_t all;
  __builtin_memcpy(&all, four, sizeof all);
  return _mm256_set1_epi32(all);
}
HWY_INLINE __m256i LoadBytes(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

template <bool kSigned>
HWY_INLINE void LoadWeights(const void* b, int64_t unit, __m256i (&columns)[2]) {
  const __m256i flip = _mm256_set1_epi8(-128);
  const auto* from = static_cast<const int8_t*>(b) + unit * kBytesUnit * kWidth;
  HWY_UNROLL(2) for (int v = 0; v < 2; ++v) {
    columns[v] = LoadBytes(from + 32 * v);
    if constexpr (kSigned) columns[v] = _mm256_xor_si256(columns[v], flip);
  }
}

template <bool kSigned>
HWY_INLINE __m256i MultiplyPairs(__m256i a, __m256i columns) {
  return kSigned ? _mm256_maddubs_epi16(columns, a) : _mm256_maddubs_epi16(a, columns);
}

template <int kTileRows, bool kSigned, bool kDoubles>
HWY_NOINLINE void RunSafe(ByteTile tile, Units units, int64_t tiles) {
  const __m256i ones = _mm256_set1_epi16(1);
  const int64_t stride = tile.a_stride;
  for (; tiles > 0; --tiles, units.Next(), tile.a += kTileRows * stride, tile.sums += kTileRows * tile.sums_stride) {
    __m256i sums[kTileRows][2];
    HWY_UNROLL(4) for (int i = 0; i < kTileRows; ++i) {
      HWY_UNROLL(2) for (int v = 0; v < 2; ++v) {
        sums[i][v] = kSigned ? _mm256_set1_epi32(units.terms[i]) : _mm256_setzero_si256();
        if (tile.adds) sums[i][v] = _mm256_add_epi32(sums[i][v], LoadBytes(tile.sums + i * tile.sums_stride + 8 * v));
      }
    }
    for (const uint8_t *both = units.list, *end = units.safe(); kDoubles && both < end; ++both) {
      __m256i columns[2], more[2];
      LoadWeights<kSigned>(tile.b, *both, columns);
      LoadWeights<kSigned>(tile.b, *both + 1, more);
      const uint8_t* HWY_RESTRICT a = tile.a + *both * kBytesUnit;
      HWY_UNROLL(4) for (int i = 0; i < kTileRows; ++i) {
        const __m256i four = Spread(a + i * stride), next = Spread(a + i * stride + kBytesUnit);
        HWY_UNROLL(2) for (int v = 0; v < 2; ++v) {
          const __m256i pairs =
              _mm256_add_epi16(MultiplyPairs<kSigned>(four, columns[v]), MultiplyPairs<kSigned>(next, more[v]));
          sums[i][v] = _mm256_add_epi32(sums[i][v], _mm256_madd_epi16(pairs, ones));
        }
      }
    }
    const uint8_t* unit = kDoubles ? units.safe() : units.list;
    for (const uint8_t* const end = unit + units.sorted->safe; unit < end; ++unit) {
      __m256i columns[2];
      LoadWeights<kSigned>(tile.b, *unit, columns);
      const uint8_t* HWY_RESTRICT a = tile.a + *unit * kBytesUnit;
      HWY_UNROLL(4) for (int i = 0; i < kTileRows; ++i) {
        const __m256i four = Spread(a + i * stride);
        HWY_UNROLL(2) for (int v = 0; v < 2; ++v) {
          const __m256i pairs = MultiplyPairs<kSigned>(four, columns[v]);
          sums[i][v] = _mm256_add_epi32(sums[i][v], _mm256_madd_epi16(pairs, ones));
        }
      }
    }
    HWY_UNROLL(4) for (int i = 0; i < kTileRows; ++i) {
      HWY_UNROLL(2)
      for (int v = 0; v < 2; ++v)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile.sums + i * tile.sums_stride + 8 * v), sums[i][v]);
    }
  }
}

// Bytes of even and of odd places as 16-bit integers.
template <bool kSigned>
HWY_INLINE void WidenBytes(__m256i bytes, __m256i (&wide)[2]) {
  if constexpr (kSigned) {
    wide[0] = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
    wide[1] = _mm256_srai_epi16(bytes, 8);
  } else {
    wide[0] = _mm256_and_si256(bytes, _mm256_set1_epi16(255));
    wide[1] = _mm256_srli_epi16(bytes, 8);
  }
}

// Adds to sums that are there.
template <int kTileRows, bool kSigned>
HWY_NOINLINE void RunUnsafe(ByteTile tile, Units units, int64_t tiles) {
  const int64_t stride = tile.a_stride;
  for (; tiles > 0; --tiles, units.Next(), tile.a += kTileRows * stride, tile.sums += kTileRows * tile.sums_stride) {
    if (units.others() == units.end()) continue;
    __m256i sums[kTileRows][2];
    HWY_UNROLL(4) for (int i = 0; i < kTileRows; ++i) {
      HWY_UNROLL(2) for (int v = 0; v < 2; ++v) sums[i][v] = LoadBytes(tile.sums + i * tile.sums_stride + 8 * v);
    }
    for (const uint8_t *unit = units.others(), *end = units.end(); unit < end; ++unit) {
      __m256i columns[2], wide[2][2];
      LoadWeights<kSigned>(tile.b, *unit, columns);
      HWY_UNROLL(2) for (int v = 0; v < 2; ++v) WidenBytes<!kSigned>(columns[v], wide[v]);
      const uint8_t* HWY_RESTRICT a = tile.a + *unit * kBytesUnit;
      HWY_UNROLL(4) for (int i = 0; i < kTileRows; ++i) {
        __m256i four[2];
        WidenBytes<kSigned>(Spread(a + i * stride), four);
        HWY_UNROLL(2) for (int place = 0; place < 2; ++place) {
          HWY_UNROLL(2)
          for (int v = 0; v < 2; ++v)
            sums[i][v] = _mm256_add_epi32(sums[i][v], _mm256_madd_epi16(four[place], wide[v][place]));
        }
      }
    }
    HWY_UNROLL(4) for (int i = 0; i < kTileRows; ++i) {
      HWY_UNROLL(2)
      for (int v = 0; v < 2; ++v)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile.sums + i * tile.sums_stride + 8 * v), sums[i][v]);
    }
  }
}

template <bool kSigned>
void RunRows(int64_t rows, ByteTile tile, Units units) {
  const int64_t tiles = rows / kRows;
  (units.wants_doubles ? RunSafe<kRows, kSigned, true> : RunSafe<kRows, kSigned, false>)(tile, units, tiles);
  RunUnsafe<kRows, kSigned>(tile, units, tiles);
  units.list += tiles * units.list_stride, units.sorted += tiles * units.chunks;
  units.terms += tiles * units.chunks * kRows;
  for (int64_t row = tiles * kRows; row < rows; ++row, ++units.terms) {
    ByteTile last = tile;
    last.a += row * tile.a_stride;
    last.sums += row * tile.sums_stride;
    RunSafe<1, kSigned, true>(last, units, 1);
    RunUnsafe<1, kSigned>(last, units, 1);
  }
}

// What is known of eight units of some rows: the largest sums of one sign of their pairs, and of the pairs of two units
// that lie side by side.
template <bool kDoubles>
struct Largest {
  __m256i pairs, doubles;

  HWY_INLINE void Take(__m256i sums) {
    pairs = _mm256_max_epi16(pairs, sums);
    if constexpr (kDoubles)
      doubles = _mm256_max_epi16(doubles, _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0xB1)));
  }
};

// `added` collects the bytes of signed rows.
template <bool kSigned, bool kDoubles>
HWY_INLINE void TakePairs(__m256i bytes, Largest<kDoubles>& largest, __m256i& added) {
  const __m256i ones = _mm256_set1_epi8(1);
  if constexpr (!kSigned) return largest.Take(_mm256_maddubs_epi16(bytes, ones));
  const __m256i above = _mm256_max_epi8(bytes, _mm256_setzero_si256());
  const __m256i up = _mm256_maddubs_epi16(above, ones),
                down = _mm256_maddubs_epi16(_mm256_sub_epi8(above, bytes), ones);
  added = _mm256_add_epi32(added, _mm256_madd_epi16(_mm256_sub_epi16(up, down), _mm256_set1_epi16(1)));
  largest.Take(up);
  largest.Take(down);
}

// Appends the numbers of the bits of a byte, counted from `first` on. What is written too much is written over.
HWY_INLINE void Append(int bits, int64_t first, uint8_t* list, int64_t& count) {
  const uint64_t numbers = kSetBits.of[bits] + 0x0101010101010101 * static_cast<uint64_t>(first);
  __builtin_memcpy(list + count, &numbers, sizeof numbers);
  count += __builtin_popcount(static_cast<unsigned>(bits));
}

// Sorts the units [0, all) of some rows into `list`. A signed row's term is its sum, taken off 128 times.
template <bool kSigned, bool kDoubles>
Sorted SortUnits(const uint8_t* a, int64_t stride, int64_t rows, int64_t all, uint8_t* list, int32_t* terms) {
  // Weights are in [-128, 127], or in [0, 255] when the rows are signed.
  const __m256i most = _mm256_set1_epi16(kSigned ? 128 : 256), zero = _mm256_setzero_si256();
  HWY_ALIGN static constexpr int32_t kMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  uint8_t waiting[kChunkUnits + sizeof(uint64_t)], others[kChunkUnits + sizeof(uint64_t)];
  uint8_t* const singles = kDoubles ? waiting : list;
  int64_t doubles = 0, safe = 0, unsafe = 0;
  __m256i added[kRows] = {zero, zero, zero, zero};
  auto fitting = [&](__m256i sums, __m256i mask) {
    const __m256i fits = _mm256_cmpeq_epi32(_mm256_cmpgt_epi16(sums, most), zero);
    return _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_and_si256(fits, mask)));
  };
  for (int64_t first = 0; first < all; first += 8) {
    const int64_t count = all - first < 8 ? all - first : 8;
    const __m256i mask = LoadBytes(kMask + 8 - count);
    Largest<kDoubles> largest{zero, zero};
    for (int64_t i = 0; i < rows; ++i) {
      const auto* from = reinterpret_cast<const int*>(a + i * stride + first * kBytesUnit);
      TakePairs<kSigned>(_mm256_maskload_epi32(from, mask), largest, added[i]);
    }
    int good = fitting(largest.pairs, mask);
    const int bad = ~good & ((1 << count) - 1);
    if constexpr (kDoubles) {
      const int firsts = fitting(largest.doubles, mask) & good >> 1 & 0x55;
      Append(firsts, first, list, doubles);
      good &= ~(3 * firsts);
    }
    Append(good, first, singles, safe);
    if (bad) Append(bad, first, others, unsafe);
  }
  if (kDoubles) __builtin_memcpy(list + doubles, singles, static_cast<size_t>(safe));
  if (unsafe) __builtin_memcpy(list + doubles + safe, others, static_cast<size_t>(unsafe));
  for (int64_t i = 0; kSigned && i < rows; ++i) terms[i] = -128 * hn::GetLane(hn::SumOfLanes(IntTag(), Ints{added[i]}));
  return {static_cast<uint16_t>(doubles), static_cast<uint16_t>(safe)};
}

// What is known of the rows of a block, chunk after chunk of each tile.
struct SortedBlock {
  alignas(64) uint8_t list[kListBytes + sizeof(uint64_t)];
  int32_t terms[kMostChunks * kRows];
  Sorted sorted[kMostChunks];
};

void WidenRows(const uint8_t* from, int64_t count, bool is_signed, int16_t* to) {
  constexpr int64_t kAll = 32;
  for (; count >= kAll; count -= kAll, from += kAll, to += kAll) {
    __m256i wide[2];
    is_signed ? WidenBytes<true>(LoadBytes(from), wide) : WidenBytes<false>(LoadBytes(from), wide);
    const __m256i low = _mm256_unpacklo_epi32(wide[0], wide[1]), high = _mm256_unpackhi_epi32(wide[0], wide[1]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + kAll / 2), _mm256_permute2x128_si256(low, high, 0x31));
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = i % kBytesUnit, at = i - place + place / 2 + place % 2 * 2;
    to[at] = is_signed ? static_cast<int16_t>(static_cast<int8_t>(from[i])) : int16_t{from[i]};
  }
}

// One block of rows.
class BlockProduct {
 public:
  BlockProduct(const ferry::Int8Product& product, SortedBlock& sorted)
      : product_(product),
        rows_(product.rows),
        units_((product.depth + kBytesUnit - 1) / kBytesUnit),
        chunks_((units_ + kChunkUnits - 1) / kChunkUnits),
        a_(static_cast<const uint8_t*>(product.a)),
        sorted_(sorted) {}

  void Run() {
    if (product_.scratch && (units_ <= kFewUnits || product_.columns <= kWidth)) return RunWidened();
    if (IsSortedOnce()) {
      // A few tiles tell mostly what is true of all.
      const int64_t tiles = rows_ / kRows;
      if (tiles >= 8 &&
          ShouldWiden(Sort(0, 0) + Sort(tiles / 2 * kRows, 0) + Sort((tiles - 1) * kRows, 0), 3 * UnitsFrom(0)))
        return RunWidened();
      int64_t safe = 0, all = 0;
      for (int64_t row = 0; row < rows_; row += kRows, all += units_)
        for (int64_t first = 0; first < units_; first += kChunkUnits) safe += Sort(row, first);
      if (ShouldWiden(safe, all)) return RunWidened();
    }
    ByteTile common{};
    common.a_stride = Padded();
    auto as_it_is = [](const int8_t* panel, int64_t, const ByteTile&) { return panel; };
    auto run = [&](int64_t, const ByteTile& tile) { RunChunk(tile); };
    for (int64_t column = 0; column < product_.columns; column += kWidth)
      MultiplyPanel<int8_t, kBytesUnit>(product_, kChunkDepth, 0, rows_, column, common, as_it_is, run);
  }

 private:
  int64_t Padded() const { return units_ * kBytesUnit; }
  int64_t RowsOfTile(int64_t row) const { return rows_ - row < kRows ? rows_ - row : kRows; }
  // Else there is room for a chunk only, sorted again for every panel.
  bool IsSortedOnce() const { return units_ <= kListBytes; }

  bool WantsDoubles() const { return product_.columns >= kDoublesColumns && units_ >= kDoublesUnits; }
  bool ShouldWiden(int64_t safe, int64_t all) const { return product_.scratch && 4 * safe < 3 * all; }
  void RunWidened() const {
    if (MultiplySparse(product_)) return;
    ferry::Int8Product widened = product_;
    WidenRows(a_, rows_ * Padded(), product_.is_signed, static_cast<int16_t*>(product_.scratch));
    widened.a = product_.scratch;
    MultiplyWidened(widened);
  }

  // Where the chunk from unit `first` on of the tile from `row` on is kept: its number among the chunks, and its list.
  int64_t NumberOf(int64_t row, int64_t first) const {
    return IsSortedOnce() ? row / kRows * chunks_ + first / kChunkUnits : 0;
  }
  uint8_t* ListOf(int64_t row, int64_t first) const {
    return sorted_.list + (IsSortedOnce() ? row / kRows * units_ + first : 0);
  }
  int64_t UnitsFrom(int64_t first) const { return units_ - first < kChunkUnits ? units_ - first : kChunkUnits; }

  int64_t Sort(int64_t row, int64_t first) {
    const int64_t number = NumberOf(row, first);
    constexpr decltype(&SortUnits<true, true>) kSorts[2][2] = {{SortUnits<false, false>, SortUnits<false, true>},
                                                               {SortUnits<true, false>, SortUnits<true, true>}};
    const Sorted sorted = kSorts[product_.is_signed][WantsDoubles()](
        a_ + row * Padded() + first * kBytesUnit, Padded(), RowsOfTile(row), UnitsFrom(first), ListOf(row, first),
        sorted_.terms + number * kRows);
    sorted_.sorted[number] = sorted;
    return 2 * sorted.doubles + sorted.safe;
  }

  void RunChunk(ByteTile tile) {
    const int64_t first = (tile.a - a_) / kBytesUnit;
    if (!IsSortedOnce()) Sort(0, first);
    const int64_t number = NumberOf(0, first);
    const auto run = product_.is_signed ? RunRows<true> : RunRows<false>;
    run(rows_, tile,
        {ListOf(0, first), sorted_.sorted + number, sorted_.terms + number * kRows, UnitsFrom(first), units_, chunks_,
         WantsDoubles()});
  }

  const ferry::Int8Product& product_;
  const int64_t rows_, units_, chunks_;
  const uint8_t* const a_;
  SortedBlock& sorted_;
};

// `rows` of a product from `row` on.
ferry::Int8Product PartOf(const ferry::Int8Product& product, int64_t row, int64_t rows, int64_t padded) {
  ferry::Int8Product part = product;
  const int64_t size = product.out.kind == ferry::Int8Output::Kind::kBytes ? 1 : sizeof(int32_t);
  part.a = static_cast<const uint8_t*>(product.a) + row * padded;
  part.rows = rows;
  part.out.c = static_cast<uint8_t*>(product.out.c) + row * product.out.stride * size;
  if (part.out.row_term) part.out.row_term += row;
  return part;
}

}  // namespace

void MultiplyBytes(const ferry::Int8Product& product) {
  SortedBlock sorted;
  const int64_t units = (product.depth + kBytesUnit - 1) / kBytesUnit;
  const int64_t tiles = units < kListBytes ? kListBytes / (units < 1 ? 1 : units) : 1;
  const int64_t most = tiles * kRows < kBlockRows ? tiles * kRows : kBlockRows;
  for (int64_t row = 0; row < product.rows; row += most) {
    const int64_t rows = product.rows - row < most ? product.rows - row : most;
    const ferry::Int8Product part = PartOf(product, row, rows, units * kBytesUnit);
    BlockProduct(part, sorted).Run();
  }
}

}  // namespace ferry::FERRY_ISA

#endif
