#include "kernels/int8_gemm.h"

#include "kernels/simd/int8_finish-inl.h"

namespace ferry::FERRY_ISA {
namespace {

using IntTag = hn::ScalableTag<int32_t>;

constexpr int kStep = static_cast<int>(kLanes);
constexpr int64_t kUnit = 2;

int64_t Padded(int64_t depth) { return (depth + kUnit - 1) / kUnit * kUnit; }

#if HWY_TARGET == HWY_SCALAR

// Without vectors there are no pairs to multiply at once.
void Multiply(const ferry::Int8Product& product) {
  const int64_t padded = Padded(product.depth), width = ferry::kInt8PanelWidth;
  const auto* a = static_cast<const int16_t*>(product.a);
  for (int64_t i = 0; i < product.rows; ++i)
    for (int64_t n = 0; n < product.columns; ++n) {
      const int8_t* column = product.packed + n / width * padded * width + kUnit * (n % width);
      uint32_t sum = 0;
      for (int64_t k = 0; k < product.depth; ++k)
        sum += static_cast<uint32_t>(a[i * padded + k] * column[k / kUnit * (kUnit * width) + k % kUnit]);
      const IntTag d;
      FinishSums(d, hn::Set(d, static_cast<int32_t>(sum)), product.out, i, n, 1);
    }
}

#else

using ShortTag = hn::ScalableTag<int16_t>;
using Ints = hn::Vec<IntTag>;
constexpr int kPanelVectors = static_cast<int>(ferry::kInt8PanelWidth / static_cast<int64_t>(kLanes));
constexpr int kTileVectors = kPanelVectors < 2 ? 1 : 2;
constexpr int kTileRows = kRegisters == 32 ? 12 : 6;
// A panel's part of this depth, widened, takes half of the first-level cache; sums of a block of rows fit beside it.
constexpr int64_t kChunkDepth = 512;
constexpr int64_t kBlockRows = 192;

struct Tile {
  const int16_t* a;
  int64_t a_stride, pairs;
  const int16_t* b;
  int32_t* sums;  // of this tile's rows and columns, a panel wide
  bool is_first, is_last;
  const ferry::Int8Output* out;
  int64_t row, column, columns;  // the tile's place in the result; columns left from there
};

// The levels of one row's columns, in [0, 255], as bytes.
HWY_INLINE void StoreLevels(const Ints (&levels)[kTileVectors], uint8_t flip, uint8_t* to) {
#if HWY_TARGET == HWY_AVX2
  const ShortTag d16;
  const hn::Rebind<uint8_t, ShortTag> d8;
  // Packing goes by blocks of 128 bits.
  HWY_ALIGN static constexpr uint8_t kOrder[16] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};
  const auto bytes = hn::DemoteTo(d8, hn::ReorderDemote2To(d16, levels[0], levels[1]));
  hn::StoreU(hn::Xor(hn::TableLookupBytes(bytes, hn::Load(d8, kOrder)), hn::Set(d8, flip)), d8, to);
#else
  const hn::Rebind<uint8_t, IntTag> d8;
  for (int v = 0; v < kTileVectors; ++v)
    hn::StoreU(hn::Xor(ToBytes(IntTag(), levels[v]), hn::Set(d8, flip)), d8, to + v * kStep);
#endif
}

// What FinishSums does, for bytes and all columns of a tile.
HWY_NOINLINE void FinishBytes(const Tile& tile, const int32_t* made, int rows) {
  const IntTag d;
  const FloatTag df;
  const ferry::Int8Output& out = *tile.out;
  const int32_t shifted = out.low < 0 || out.high < 0 ? 128 : 0;
  const Floats low = hn::Set(df, static_cast<float>(out.low - out.zero)),
               high = hn::Set(df, static_cast<float>(out.high - out.zero));
  const Ints zero = hn::Set(d, out.zero + shifted);
  Ints offset[kTileVectors];
  Floats factor[kTileVectors], shift[kTileVectors];
  for (int v = 0; v < kTileVectors; ++v) {
    const int64_t column = tile.column + v * kStep;
    offset[v] = out.offset ? hn::LoadU(d, out.offset + column) : hn::Zero(d);
    factor[v] = hn::LoadU(df, out.factor + column);
    shift[v] = out.shift ? hn::LoadU(df, out.shift + column) : hn::Zero(df);
  }
  uint8_t* to = static_cast<uint8_t*>(out.c) + tile.row * out.stride + tile.column;
  for (int i = 0; i < rows; ++i, to += out.stride) {
    Ints levels[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v, made += kStep) {
      Ints sum = hn::Add(hn::Load(d, made), offset[v]);
      if (!tile.is_first) sum = hn::Add(sum, hn::Load(d, tile.sums + i * ferry::kInt8PanelWidth + v * kStep));
      const Floats value = hn::MulAdd(hn::ConvertTo(df, sum), factor[v], shift[v]);
      levels[v] = hn::Add(hn::NearestInt(hn::Min(hn::Max(value, low), high)), zero);
    }
    StoreLevels(levels, static_cast<uint8_t>(shifted), to);
  }
}

HWY_NOINLINE void FinishTile(const Tile& tile, const int32_t* made, int rows) {
  const IntTag d;
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < kTileVectors; ++v, made += kStep) {
      Ints sum = hn::Load(d, made);
      int32_t* kept = tile.sums + i * ferry::kInt8PanelWidth + v * kStep;
      if (!tile.is_first) sum = hn::Add(sum, hn::Load(d, kept));
      if (!tile.is_last)
        hn::Store(sum, d, kept);
      else if (tile.columns > v * kStep)
        FinishSums(d, sum, *tile.out, tile.row + i, tile.column + v * kStep, tile.columns - v * kStep);
    }
}

template <int kRows>
HWY_NOINLINE void RunTile(const Tile& tile) {
  const IntTag d;
  const ShortTag d16;
  // Some instruction sets keep the sums of even and odd places apart until the end.
  Ints sums[kRows][kTileVectors], others[kRows][kTileVectors];
  HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(2) for (int v = 0; v < kTileVectors; ++v) sums[i][v] = others[i][v] = hn::Zero(d);
  }
  const int16_t* HWY_RESTRICT a = tile.a;
  const int16_t* HWY_RESTRICT b = tile.b;
  const int64_t a_stride = tile.a_stride;
  for (int64_t pair = 0; pair < tile.pairs; ++pair, a += 2, b += 2 * ferry::kInt8PanelWidth) {
    hn::Vec<ShortTag> columns[kTileVectors];
    HWY_UNROLL(2) for (int v = 0; v < kTileVectors; ++v) columns[v] = hn::Load(d16, b + 2 * v * kStep);
    HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
      int32_t both;
      __builtin_memcpy(&both, a + i * a_stride, sizeof both);
      const hn::Vec<ShortTag> element = hn::BitCast(d16, hn::Set(d, both));
      HWY_UNROLL(2)
      for (int v = 0; v < kTileVectors; ++v)
        sums[i][v] = hn::ReorderWidenMulAccumulate(d, element, columns[v], sums[i][v], others[i][v]);
    }
  }
  // Through memory, so that the loop above has all registers to itself.
  HWY_ALIGN int32_t made[kRows * kTileVectors * kStep];
  HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(2)
    for (int v = 0; v < kTileVectors; ++v)
      hn::Store(hn::RearrangeToOddPlusEven(sums[i][v], others[i][v]), d, made + (i * kTileVectors + v) * kStep);
  }
  const ferry::Int8Output& out = *tile.out;
  if (tile.is_last && out.kind == ferry::Int8Output::Kind::kBytes && !out.row_term &&
      tile.columns >= kTileVectors * kStep)
    FinishBytes(tile, made, kRows);
  else
    FinishTile(tile, made, kRows);
}

void RunRows(int64_t rows, const Tile& tile) {
  switch (rows) {
    case 1: return RunTile<1>(tile);
    case 2: return RunTile<2>(tile);
    case 3: return RunTile<3>(tile);
    case 4: return RunTile<4>(tile);
    case 5: return RunTile<5>(tile);
    case 6: return RunTile<6>(tile);
    default: break;
  }
  if constexpr (kTileRows > 6) RunTile<kTileRows>(tile);
}

void Widen(const int8_t* from, int64_t count, int16_t* to) {
  const ShortTag d16;
  const hn::Rebind<int8_t, ShortTag> d8;
  constexpr int64_t kAll = hn::MaxLanes(ShortTag());
  for (int64_t i = 0; i < count; i += kAll) hn::Store(hn::PromoteTo(d16, hn::LoadU(d8, from + i)), d16, to + i);
}

// One panel of columns against one block of rows.
void MultiplyPanel(const ferry::Int8Product& product, int64_t first_row, int64_t rows, int64_t column) {
  HWY_ALIGN int16_t wide[kChunkDepth * ferry::kInt8PanelWidth];
  HWY_ALIGN int32_t sums[kBlockRows * ferry::kInt8PanelWidth];
  const int64_t padded = Padded(product.depth), width = ferry::kInt8PanelWidth;
  const int8_t* panel = product.packed + column * padded;
  for (int64_t depth = 0; depth < padded; depth += kChunkDepth) {
    const int64_t depths = padded - depth < kChunkDepth ? padded - depth : kChunkDepth;
    Widen(panel + depth * width, depths * width, wide);
    Tile tile{};
    tile.a_stride = padded;
    tile.pairs = depths / 2;
    tile.is_first = depth == 0;
    tile.is_last = depth + depths == padded;
    tile.out = &product.out;
    for (int v = 0; v < kPanelVectors; v += kTileVectors) {
      tile.b = wide + 2 * v * kStep;
      tile.column = column + v * kStep;
      tile.columns = product.columns - tile.column;
      if (tile.columns <= 0) break;
      for (int64_t row = 0; row < rows;) {
        const int64_t left = rows - row, count = left >= kTileRows ? kTileRows : left > 6 ? 6 : left;
        tile.row = first_row + row;
        tile.a = static_cast<const int16_t*>(product.a) + tile.row * padded + depth;
        tile.sums = sums + row * width + v * kStep;
        RunRows(count, tile);
        row += count;
      }
    }
  }
}

void Multiply(const ferry::Int8Product& product) {
  for (int64_t row = 0; row < product.rows; row += kBlockRows) {
    const int64_t rows = product.rows - row < kBlockRows ? product.rows - row : kBlockRows;
    for (int64_t column = 0; column < product.columns; column += ferry::kInt8PanelWidth)
      MultiplyPanel(product, row, rows, column);
  }
}

#endif

void Prepare(const uint8_t* from, uint8_t flip, int64_t count, void* to) {
  const hn::ScalableTag<int16_t> d16;
  const hn::Rebind<uint8_t, hn::ScalableTag<int16_t>> d8;
  constexpr int64_t kAll = hn::MaxLanes(hn::ScalableTag<int16_t>());
  const auto flips = hn::Set(d8, flip);
  auto* wide = static_cast<int16_t*>(to);
  auto one = [&](int64_t i) { hn::StoreU(hn::PromoteTo(d16, hn::Xor(hn::LoadU(d8, from + i), flips)), d16, wide + i); };
  int64_t i = 0;
  for (; i + kAll <= count; i += kAll) one(i);
  if (i < count && count >= kAll) {
    one(count - kAll);  // some are made twice
    i = count;
  }
  for (; i < count; ++i) wide[i] = static_cast<int16_t>(from[i] ^ flip);
}

void Fill(uint8_t value, int64_t count, void* to) {
  auto* wide = static_cast<int16_t*>(to);
  for (int64_t i = 0; i < count; ++i) wide[i] = value;
}

void Range(const float* x, int64_t count, float* low, float* high) {
  const FloatTag d;
  Floats smallest = hn::Zero(d), largest = hn::Zero(d), smallest2 = smallest, largest2 = largest;
  int64_t i = 0;
  for (; i + 2 * kStep <= count; i += 2 * kStep) {
    Floats v = hn::LoadU(d, x + i), w = hn::LoadU(d, x + i + kStep);
    smallest = hn::IfThenElse(hn::Lt(v, smallest), v, smallest);
    largest = hn::IfThenElse(hn::Gt(v, largest), v, largest);
    smallest2 = hn::IfThenElse(hn::Lt(w, smallest2), w, smallest2);
    largest2 = hn::IfThenElse(hn::Gt(w, largest2), w, largest2);
  }
  *low = hn::GetLane(hn::MinOfLanes(d, hn::Min(smallest, smallest2)));
  *high = hn::GetLane(hn::MaxOfLanes(d, hn::Max(largest, largest2)));
  for (; i < count; ++i) {
    if (x[i] < *low) *low = x[i];
    if (x[i] > *high) *high = x[i];
  }
}

void Quantize(const float* x, int64_t count, float scale, float zero, uint8_t flip, uint8_t* y) {
  const FloatTag d;
  const IntTag di;
  const hn::Rebind<uint8_t, FloatTag> d8;
  const Floats divisor = hn::Set(d, scale), shift = hn::Set(d, zero), most = hn::Set(d, 255.0f), none = hn::Zero(d);
  const auto flips = hn::Set(d8, flip);
  auto one = [&](Floats v) {
    Floats level = hn::Add(hn::Round(hn::Div(v, divisor)), shift);
    level = hn::IfThenElse(hn::Gt(level, none), level, none);
    return hn::Xor(ToBytes(di, hn::ConvertTo(di, hn::IfThenElse(hn::Gt(level, most), most, level))), flips);
  };
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) hn::StoreU(one(hn::LoadU(d, x + i)), d8, y + i);
  if (i == count) return;
  HWY_ALIGN float rest[kLanes] = {};
  for (int64_t n = i; n < count; ++n) rest[n - i] = x[n];
  StorePart(d8, one(hn::Load(d, rest)), count - i, y + i);
}

void Dequantize(const uint8_t* x, int64_t count, float scale, int32_t zero, uint8_t flip, float* y) {
  const FloatTag d;
  const IntTag di;
  const hn::Rebind<uint8_t, FloatTag> d8;
  const Floats factor = hn::Set(d, scale);
  const auto zeros = hn::Set(di, zero);
  const auto flips = hn::Set(d8, flip);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const auto level = hn::PromoteTo(di, hn::Xor(hn::LoadU(d8, x + i), flips));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, hn::Sub(level, zeros)), factor), d, y + i);
  }
  for (; i < count; ++i) y[i] = static_cast<float>(int32_t{static_cast<uint8_t>(x[i] ^ flip)} - zero) * scale;
}

}  // namespace

extern const Int8Kernels kInt8Kernels;
#if HWY_TARGET == HWY_SCALAR
constexpr int kTileRows = 1;
#endif
const Int8Kernels kInt8Kernels = {kUnit,    sizeof(int16_t), kTileRows, Prepare,   Fill,
                                  Multiply, Range,           Quantize,  Dequantize};

}  // namespace ferry::FERRY_ISA
