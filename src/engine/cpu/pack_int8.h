// 8-bit weights as the kernels for products want them (kernels/int8_gemm.h), made once for all programs of a model.
#pragma once

#include "engine/weight_cache.h"
#include "kernels/int8_gemm.h"

namespace ferry {

// Weights of one or several groups: w(group, n, k) without zero points.
struct Int8Weights {
  int64_t groups = 1, depth = 0, columns = 0;  // columns of a group
  // The panels of every group, then the sums of every column of every group. As WeightCache::GetTensor has it.
  std::shared_ptr<const Tensor> packed;

  const int8_t* GroupPanels(int64_t group) const {
    return packed->Data<int8_t>() + group * PackedInt8Size(depth, columns);
  }
};

// A [depth × columns] matrix of bytes; every byte is changed by `flip`.
Int8Weights PackInt8Rows(const Tensor& weight, uint8_t flip, WeightCache& cache);
// The same for whoever can do with some columns at a time, which are made on the way together with their sums.
WeightCache::Later PackInt8RowsLater(const Tensor& weight, uint8_t flip, WeightCache& cache);
void PackInt8Columns(const Tensor& weight, uint8_t flip, int64_t first, int64_t count, int8_t* panels, int32_t* sums);
// One line of int8_t for each column of each group, which holds `taps` weights of every channel side by side; in panels
// those of one tap are, with zeros up to a multiple of `channel_unit` channels.
Int8Weights PackInt8Lines(const Tensor& weight, int64_t groups, int64_t taps, WeightCache& cache,
                          int64_t channel_unit = 1);

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
