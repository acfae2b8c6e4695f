// 8-bit weights as the kernels for products want them (kernels/int8_gemm.h), made once for all programs of a model.
#pragma once

#include "engine/weight_cache.h"
#include "kernels/int8_gemm.h"

namespace ferry {

// The shape of weights of one or several groups: w(group, n, k) without zero points.
struct Int8Shape {
  int64_t groups = 1, depth = 0, columns = 0;  // columns of a group
};

// Weights in panels, or what it takes to pack some columns of them on the way, together with their sums.
struct Int8Weights {
  Int8Shape shape;
  WeightCache::DeferredTensor packed;  // the panels of every group, then the sums of every column of every group
  // Columns [first, first + count) of a single group; `first` begins a panel.
  std::function<void(int64_t first, int64_t count, int8_t* panels, int32_t* sums)> pack;
};

// A [depth × columns] matrix of bytes; every byte is changed by `flip`.
Int8Weights PackInt8Rows(const Tensor& weight, uint8_t flip, WeightCache& cache);
// One line of int8_t for each column of each group, which holds `taps` weights of every channel side by side; in panels
// those of one tap are, with zeros up to a multiple of `channel_unit` channels. Several groups are packed at once.
Int8Weights PackInt8Lines(const Tensor& weight, int64_t groups, int64_t taps, WeightCache& cache,
                          int64_t channel_unit = 1);

// A line of the weights of all taps of each channel becomes one of all channels of each tap, `stride` from tap to tap;
// `end` is behind all lines.
void TurnTaps(const int8_t* line, int64_t channels, int64_t taps, const int8_t* end, int8_t* to, int64_t stride);

// What tells packed 8-bit weights of one kind of processor from those of another; a part of their form's name.
std::string Int8Order();
// Packed weights end with the sums of `count` columns.
inline const int32_t* SumsBehind(const Tensor& packed, int64_t count) {
  return reinterpret_cast<const int32_t*>(packed.raw() + packed.bytes()) - count;
}
// The sums of the columns of packed panels: products with ones.
class Int8ColumnSums {
 public:
  enum class Of { kBytes, kShorts };
  Int8ColumnSums(int64_t depth, Of weights);
  void Take(const void* panels, int64_t columns, int32_t* sums) const;

 private:
  int64_t depth_;
  void (*multiply_)(const Int8Product&);
  std::vector<std::byte> ones_;
};

}  // namespace ferry
