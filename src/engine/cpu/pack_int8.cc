#include "engine/cpu/pack_int8.h"

#include <algorithm>
#include <cstring>

#include "kernels/transpose_block.h"

namespace ferry {
namespace {

using Zip = BlockTranspose<uint8_t>;
static_assert(Zip::kSide == kInt8PanelWidth);

// The bytes of 2 or 4 rows of a panel in turns.
void InterleaveRows(const Zip::Vector* rows, int64_t unit, int8_t* to) {
  if (unit == 2) {
    const Zip::Vector made[] = {Zip::ZipLower(rows[0], rows[1]), Zip::ZipUpper(rows[0], rows[1])};
    std::memcpy(to, made, sizeof made);
    return;
  }
  const Zip::Vector even[] = {Zip::ZipLower(rows[0], rows[2]), Zip::ZipUpper(rows[0], rows[2])};
  const Zip::Vector odd[] = {Zip::ZipLower(rows[1], rows[3]), Zip::ZipUpper(rows[1], rows[3])};
  const Zip::Vector made[] = {Zip::ZipLower(even[0], odd[0]), Zip::ZipUpper(even[0], odd[0]),
                              Zip::ZipLower(even[1], odd[1]), Zip::ZipUpper(even[1], odd[1])};
  std::memcpy(to, made, sizeof made);
}

void FillFromRows(const uint8_t* rows, int64_t depth, int64_t columns, uint8_t flip, int8_t* panels) {
  constexpr int64_t kBlock = 64;  // rows that are read for all panels at once: each page is touched once
  const int64_t unit = BestInt8Kernels().depth_unit, padded = PaddedDepth(depth);
  for (int64_t first = 0; first < padded; first += kBlock)
    for (int64_t n = 0; n < columns; n += kInt8PanelWidth) {
      const int64_t filled = std::min(kInt8PanelWidth, columns - n), last = std::min(padded, first + kBlock);
      int8_t* to = panels + n * padded + first * kInt8PanelWidth;
      for (int64_t k = first; k < last; k += unit, to += unit * kInt8PanelWidth) {
        Zip::Vector lines[4] = {};
        for (int64_t u = 0; u < unit && k + u < depth; ++u) {
          uint8_t line[kInt8PanelWidth];
          const uint8_t* from = rows + (k + u) * columns + n;
          if (filled < kInt8PanelWidth) {
            std::fill(std::copy_n(from, filled, line), line + kInt8PanelWidth, flip);
            from = line;
          }
          std::memcpy(&lines[u], from, sizeof lines[u]);
          lines[u] ^= flip;
        }
        InterleaveRows(lines, unit, to);
      }
    }
}

// Lines of a panel, `stride` bytes apart, with zeros up to whole blocks; `Unit` holds the depths that lie side by side.
template <class Unit>
void TurnLines(const int8_t* lines, int64_t stride, int64_t padded, int8_t* panel) {
  using Block = BlockTranspose<Unit>;
  constexpr auto kUnit = static_cast<int64_t>(sizeof(Unit)), kSide = static_cast<int64_t>(Block::kSide);
  constexpr auto kDepth = static_cast<int64_t>(kBlockBytes);
  for (int64_t k = 0; k < padded; k += kDepth, panel += kDepth * kInt8PanelWidth) {
    int8_t last[kDepth * kInt8PanelWidth];
    int8_t* const to = k + kDepth <= padded ? panel : last;
    for (int64_t n = 0; n < kInt8PanelWidth; n += kSide)
      Block::Run(reinterpret_cast<const std::byte*>(lines + n * stride + k), stride / kUnit,
                 reinterpret_cast<std::byte*>(to + n * kUnit), kInt8PanelWidth);
    if (to == last) std::memcpy(panel, last, static_cast<size_t>((padded - k) * kInt8PanelWidth));
  }
}

void FillFromLines(const int8_t* lines, int64_t depth, int64_t columns, int64_t taps, int8_t* panels) {
  constexpr auto kDepth = static_cast<int64_t>(kBlockBytes);
  const int64_t padded = PaddedDepth(depth), stride = (depth + kDepth - 1) / kDepth * kDepth, channels = depth / taps;
  const auto turn = BestInt8Kernels().depth_unit == 2 ? TurnLines<uint16_t> : TurnLines<uint32_t>;
  std::vector<int8_t> copy(static_cast<size_t>(stride * kInt8PanelWidth));
  for (int64_t first = 0; first < columns; first += kInt8PanelWidth, panels += padded * kInt8PanelWidth) {
    const int64_t filled = std::min(kInt8PanelWidth, columns - first);
    const int8_t* from = lines + first * depth;
    if (taps == 1 && stride == depth && filled == kInt8PanelWidth) {
      turn(from, stride, padded, panels);
      continue;
    }
    if (filled < kInt8PanelWidth) std::fill(copy.begin(), copy.end(), int8_t{0});
    for (int64_t n = 0; n < filled; ++n, from += depth) {
      int8_t* to = copy.data() + n * stride;
      if (taps == 1) std::copy_n(from, depth, to);
      for (int64_t c = 0; taps > 1 && c < channels; ++c)
        for (int64_t tap = 0; tap < taps; ++tap) to[tap * channels + c] = from[c * taps + tap];
    }
    turn(copy.data(), stride, padded, panels);
  }
}

// `fill` writes the panels of all groups.
template <class FillPanels>
Int8Weights Pack(Int8Weights made, const Tensor& weight, const std::string& form, WeightCache& cache,
                 const FillPanels& fill) {
  const int64_t size = PackedInt8Size(made.depth, made.columns), sums = made.groups * made.columns;
  const int64_t count = made.groups * size + sums * static_cast<int64_t>(sizeof(int32_t));
  auto fill_all = [=, groups = made.groups, depth = made.depth, columns = made.columns](Tensor& packed) {
    auto* panels = packed.MutableData<int8_t>();
    fill(panels);
    for (int64_t group = 0; group < groups; ++group)
      SumInt8Columns(BestInt8Kernels().multiply, panels + group * size, depth, columns,
                     reinterpret_cast<int32_t*>(panels + groups * size) + group * columns);
  };
  made.packed = cache.GetTensor(weight, Cat(form, Int8Order()), DType::kInt8, count, fill_all);
  return made;
}

}  // namespace

std::string Int8Order() {
  const Int8Kernels& kernels = BestInt8Kernels();
  return Cat(", ", kernels.depth_unit, " of ", kernels.depth_multiple, " depths");
}

void SumInt8Columns(void (*multiply)(const Int8Product&), const void* panels, int64_t depth, int64_t columns,
                    int32_t* sums) {
  const Int8Kernels& kernels = BestInt8Kernels();
  const int64_t padded = PaddedDepth(depth);
  std::vector<std::byte> ones(static_cast<size_t>(padded * kernels.element_bytes));
  kernels.fill(1, padded, ones.data());
  Int8Product product{ones.data(), 1, depth};
  product.packed = panels;
  product.columns = columns;
  product.out.c = sums;
  product.out.stride = columns;
  multiply(product);
}

Int8Weights PackInt8Rows(const Tensor& weight, uint8_t flip, WeightCache& cache) {
  const int64_t depth = weight.dim(0), columns = weight.dim(1);
  return Pack({1, depth, columns, nullptr}, weight, Cat("8-bit panels ^ ", static_cast<int>(flip)), cache,
              [=](int8_t* panels) {
                FillFromRows(reinterpret_cast<const uint8_t*>(weight.raw()), depth, columns, flip, panels);
              });
}

Int8Weights PackInt8Lines(const Tensor& weight, int64_t groups, int64_t taps, WeightCache& cache) {
  const int64_t columns = weight.dim(0) / groups, depth = weight.size() / weight.dim(0);
  return Pack({groups, depth, columns, nullptr}, weight, Cat("8-bit lines of ", taps, " taps in ", groups, " groups"),
              cache, [=](int8_t* panels) {
                for (int64_t group = 0; group < groups; ++group)
                  FillFromLines(weight.Data<int8_t>() + group * columns * depth, depth, columns, taps,
                                panels + group * PackedInt8Size(depth, columns));
              });
}

}  // namespace ferry
