#include "providers/cpu/pack_int8.h"

#include <algorithm>
#include <cstring>

#include "kernels/transpose_block.h"

namespace ferry {
namespace {

using Zip = BlockTranspose<uint8_t>;
static_assert(Zip::kSide == kInt8PanelWidth);

void Put(Zip::Vector bytes, int8_t* to) { std::memcpy(to, &bytes, sizeof bytes); }

// The bytes of 2 or 4 rows of a panel in turns. Inline, so that they stay in registers.
template <int64_t kUnit>
[[gnu::always_inline]] inline void InterleaveRows(const Zip::Vector (&rows)[kUnit], int8_t* to) {
  constexpr int64_t kSide = Zip::kSide;
  if constexpr (kUnit == 2) {
    Put(Zip::ZipLower(rows[0], rows[1]), to);
    Put(Zip::ZipUpper(rows[0], rows[1]), to + kSide);
  } else {
    const Zip::Vector even = Zip::ZipLower(rows[0], rows[2]), odd = Zip::ZipLower(rows[1], rows[3]);
    Put(Zip::ZipLower(even, odd), to);
    Put(Zip::ZipUpper(even, odd), to + kSide);
    const Zip::Vector upper_even = Zip::ZipUpper(rows[0], rows[2]), upper_odd = Zip::ZipUpper(rows[1], rows[3]);
    Put(Zip::ZipLower(upper_even, upper_odd), to + 2 * kSide);
    Put(Zip::ZipUpper(upper_even, upper_odd), to + 3 * kSide);
  }
}

// Some rows of a panel, `stride` bytes apart.
template <int64_t kUnit>
void PackRows(const uint8_t* from, int64_t stride, int64_t rows, uint8_t flip, int8_t* to) {
  for (int64_t k = 0; k < rows; k += kUnit, to += kUnit * kInt8PanelWidth, from += kUnit * stride) {
    Zip::Vector lines[kUnit];
#pragma GCC unroll 4
    for (int64_t u = 0; u < kUnit; ++u) {
      std::memcpy(&lines[u], from + u * stride, sizeof lines[u]);
      lines[u] ^= flip;
    }
    InterleaveRows<kUnit>(lines, to);
  }
}

// `columns` of rows that are `length` long.
void FillFromRows(const uint8_t* rows, int64_t length, int64_t depth, int64_t columns, uint8_t flip, int8_t* panels,
                  int32_t* sums) {
  constexpr int64_t kBlock = 16;  // rows that are read for all panels at once: their lines stay in the nearest cache
  constexpr int64_t kLine = 64;
  const int64_t padded = PaddedDepth(depth);
  const auto pack = BestInt8Kernels().depth_unit == 2 ? PackRows<2> : PackRows<4>;
  for (int64_t first = 0; first < padded; first += kBlock)
    for (int64_t n = 0; n < columns; n += kInt8PanelWidth) {
      const int64_t filled = std::min(kInt8PanelWidth, columns - n), there = std::min(kBlock, depth - first);
      const uint8_t* from = rows + first * length + n;
      // The processor does not see which lines come next.
      if (n % kLine == 0 && first + 2 * kBlock <= depth)
        for (int64_t k = kBlock; k < 2 * kBlock; ++k) __builtin_prefetch(from + k * length);
      int64_t stride = length;
      uint8_t edge[kBlock * kInt8PanelWidth];
      if (filled < kInt8PanelWidth || there < kBlock) {
        std::fill_n(edge, sizeof edge, flip);
        for (int64_t k = 0; k < there; ++k) std::copy_n(from + k * length, filled, edge + k * kInt8PanelWidth);
        from = edge, stride = kInt8PanelWidth;
      }
      pack(from, stride, std::min(kBlock, padded - first), flip, panels + n * padded + first * kInt8PanelWidth);
    }
  Int8ColumnSums(depth, Int8ColumnSums::Of::kBytes).Take(panels, columns, sums);
}

// Lines of a panel, `stride` bytes apart, with zeros up to whole blocks; `Unit` holds the depths that lie side by side.
template <class Unit>
void TurnLines(const int8_t* lines, int64_t stride, int64_t padded, int8_t* panel) {
  using Block = BlockTranspose<Unit>;
  constexpr auto kUnit = static_cast<int64_t>(sizeof(Unit)), kSide = static_cast<int64_t>(Block::kSide);
  constexpr int64_t kDepth = kBlockBytes, kLine = 64, kAhead = 2 * kLine;
  for (int64_t first = 0; first < padded; first += kLine)
    for (int64_t n = 0; n < kInt8PanelWidth; n += kSide)
      for (int64_t k = first; k < std::min(padded, first + kLine); k += kDepth) {
        int8_t last[kDepth * kInt8PanelWidth];
        int8_t* const at = panel + k * kInt8PanelWidth + n * kUnit;
        int8_t* const to = k + kDepth <= padded ? at : last;
        // As many lines as there are columns are more than the processor follows by itself.
        if (first + kAhead < padded) __builtin_prefetch(lines + (n + (k - first) / kDepth) * stride + first + kAhead);
        Block::Run(reinterpret_cast<const std::byte*>(lines + n * stride + k), stride / kUnit,
                   reinterpret_cast<std::byte*>(to), kInt8PanelWidth);
        if (to == at) continue;
        for (int64_t i = 0; i < (padded - k) / kUnit; ++i)
          std::memcpy(at + i * kUnit * kInt8PanelWidth, last + i * kUnit * kInt8PanelWidth, kBlockBytes);
      }
}

}  // namespace

void TurnTaps(const int8_t* line, int64_t channels, int64_t taps, const int8_t* end, int8_t* to, int64_t stride) {
  constexpr int64_t kReach = kBlockBytes, kUnit = 4;
  int64_t c = 0;
  for (; taps <= kReach && c + kUnit <= channels && end - line >= (c + kUnit - 1) * taps + kReach; c += kUnit) {
    Zip::Vector rows[kUnit];
    for (int64_t u = 0; u < kUnit; ++u) std::memcpy(&rows[u], line + (c + u) * taps, sizeof rows[u]);
    int8_t turned[kReach * kUnit];
    InterleaveRows<kUnit>(rows, turned);
    for (int64_t tap = 0; tap < taps; ++tap) std::memcpy(to + tap * stride + c, turned + tap * kUnit, kUnit);
  }
  for (; c < channels; ++c)
    for (int64_t tap = 0; tap < taps; ++tap) to[tap * stride + c] = line[c * taps + tap];
}

namespace {

// Lines of `taps` weights for each of `channels`; in panels there are `depth` / taps channels.
void FillFromLines(const int8_t* lines, const int8_t* end, int64_t channels, int64_t depth, int64_t columns,
                   int64_t taps, int8_t* panels, int32_t* sums) {
  constexpr int64_t kDepth = kBlockBytes;
  const int64_t length = channels * taps, padded = PaddedDepth(depth), stride = (depth + kDepth - 1) / kDepth * kDepth;
  const auto turn = BestInt8Kernels().depth_unit == 2 ? TurnLines<uint16_t> : TurnLines<uint32_t>;
  const Int8ColumnSums column_sums(depth, Int8ColumnSums::Of::kBytes);
  std::vector<int8_t> copy(static_cast<size_t>(stride * kInt8PanelWidth));
  for (int64_t first = 0; first < columns; first += kInt8PanelWidth, panels += padded * kInt8PanelWidth) {
    const int64_t filled = std::min(kInt8PanelWidth, columns - first);
    const int8_t* from = lines + first * length;
    if (taps == 1 && stride == length && filled == kInt8PanelWidth) {
      turn(from, stride, padded, panels);
    } else {
      if (filled < kInt8PanelWidth) std::fill(copy.begin(), copy.end(), int8_t{0});
      for (int64_t n = 0; n < filled; ++n, from += length) {
        if (taps == 1)
          std::copy_n(from, length, copy.data() + n * stride);
        else
          TurnTaps(from, channels, taps, end, copy.data() + n * stride, depth / taps);
      }
      turn(copy.data(), stride, padded, panels);
    }
    column_sums.Take(panels, filled, sums + first);
  }
}

// Bytes of packed weights with their sums.
int64_t WholeSize(const Int8Shape& shape) {
  return shape.groups *
         (PackedInt8Size(shape.depth, shape.columns) + shape.columns * static_cast<int64_t>(sizeof(int32_t)));
}

// fill(group, its panels, its sums)
template <class FillGroup>
WeightCache::Fill FillAll(const Int8Shape& shape, const FillGroup& fill) {
  return [=, size = PackedInt8Size(shape.depth, shape.columns)](Tensor& packed) {
    auto* panels = packed.MutableData<int8_t>();
    auto* sums = reinterpret_cast<int32_t*>(panels + shape.groups * size);
    for (int64_t group = 0; group < shape.groups; ++group)
      fill(group, panels + group * size, sums + group * shape.columns);
  };
}

}  // namespace

std::string Int8Order() {
  const Int8Kernels& kernels = BestInt8Kernels();
  return Cat(", ", kernels.depth_unit, " of ", kernels.depth_multiple, " depths");
}

Int8ColumnSums::Int8ColumnSums(int64_t depth, Of weights) : depth_(depth) {
  const Int8Kernels& kernels = BestInt8Kernels();
  const int64_t padded = PaddedDepth(depth);
  if (weights == Of::kBytes) {
    multiply_ = kernels.multiply;
    ones_.resize(static_cast<size_t>(padded * kernels.element_bytes));
    kernels.fill(1, padded, ones_.data());
  } else {
    multiply_ = kernels.multiply_shorts;
    const std::vector<int16_t> ones(static_cast<size_t>(padded), 1);
    ones_.resize(ones.size() * sizeof(int16_t));
    std::memcpy(ones_.data(), ones.data(), ones_.size());
  }
}

void Int8ColumnSums::Take(const void* panels, int64_t columns, int32_t* sums) const {
  Int8Product product{ones_.data(), 1, depth_};
  product.packed = panels;
  product.columns = columns;
  product.out.c = sums;
  product.out.stride = columns;
  multiply_(product);
}

Int8Weights PackInt8Rows(const Tensor& weight, uint8_t flip, WeightCache& cache) {
  const Int8Shape shape{1, weight.dim(0), weight.dim(1)};
  auto pack = [=](int64_t first, int64_t count, int8_t* panels, int32_t* sums) {
    FillFromRows(reinterpret_cast<const uint8_t*>(weight.raw()) + first, shape.columns, shape.depth, count, flip,
                 panels, sums);
  };
  auto fill = [=](int64_t, int8_t* panels, int32_t* sums) { pack(0, shape.columns, panels, sums); };
  return {shape,
          cache.GetDeferred(weight, Cat("8-bit panels ^ ", static_cast<int>(flip), Int8Order()), DType::kInt8,
                            WholeSize(shape), FillAll(shape, fill)),
          pack};
}

Int8Weights PackInt8Lines(const Tensor& weight, int64_t groups, int64_t taps, WeightCache& cache,
                          int64_t channel_unit) {
  const int64_t columns = weight.dim(0) / groups, length = weight.size() / weight.dim(0), channels = length / taps;
  const int64_t depth = (channels + channel_unit - 1) / channel_unit * channel_unit * taps;
  const Int8Shape shape{groups, depth, columns};
  auto pack = [=](int64_t first, int64_t count, int8_t* panels, int32_t* sums) {
    const int8_t* lines = weight.Data<int8_t>();
    FillFromLines(lines + first * length, lines + weight.size(), channels, depth, count, taps, panels, sums);
  };
  auto fill = [=](int64_t group, int8_t* panels, int32_t* sums) { pack(group * columns, columns, panels, sums); };
  std::string form = Cat("8-bit lines of ", taps, " taps in ", groups, " groups",
                         depth > length ? ", channels padded" : "", Int8Order());
  return {shape, cache.GetDeferred(weight, form, DType::kInt8, WholeSize(shape), FillAll(shape, fill), groups > 1),
          pack};
}

}  // namespace ferry
