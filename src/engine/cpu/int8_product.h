// Products of bytes with 8-bit weights packed once (kernels/int8_gemm.h), cut into blocks for the run's threads.
#pragma once

#include <vector>

#include "engine/provider.h"
#include "kernels/int8_gemm.h"
#include "ops/support/quantized_step.h"

namespace ferry {

// Weights of one or several groups: w(group, n, k) without zero points.
struct Int8Weights {
  int64_t groups = 1, depth = 0, columns = 0;  // columns of a group
  Tensor panels;                               // of every group
  std::vector<int32_t> sums;                   // of every column of every group

  const int8_t* GroupPanels(int64_t group) const {
    return panels.Data<int8_t>() + group * PackedInt8Size(depth, columns);
  }
};

template <class At>
Int8Weights PackInt8(int64_t groups, int64_t depth, int64_t columns, const At& at) {
  Int8Weights packed{groups, depth, columns, {}, {}};
  int64_t size = PackedInt8Size(depth, columns), unit = BestInt8Kernels().depth_unit;
  packed.panels = Tensor::Zeros(DType::kInt8, {groups * size});
  packed.sums.resize(static_cast<size_t>(groups * columns));
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t n = 0; n < columns; ++n) {
      int8_t* column = packed.panels.MutableData<int8_t>() + group * size + PackedInt8Index(depth, 0, n);
      uint32_t sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        int8_t weight = at(group, n, k);
        column[k / unit * unit * kInt8PanelWidth + k % unit] = weight;
        sum += static_cast<uint32_t>(int32_t{weight});
      }
      packed.sums[static_cast<size_t>(group * columns + n)] = static_cast<int32_t>(sum);
    }
  return packed;
}

// What becomes of sums over bytes of `x_type` whose zero point and bias are not taken off yet.
class Int8Finish {
 public:
  Int8Finish(const QuantizedStep& step, DType x_type, const std::vector<int32_t>& weight_sums, const Tensor& factor,
             const Tensor* bias);

  const QuantizedStep& step() const { return step_; }
  // `y` is where row 0, column `column` goes.
  Int8Output Output(void* y, int64_t stride, int64_t column) const;
  // The byte that stands for 0, as the kernels' prepare has it and as it lies in memory.
  uint8_t ready_zero() const { return static_cast<uint8_t>(x_zero_); }
  uint8_t raw_zero() const { return static_cast<uint8_t>(x_zero_ ^ flip_); }
  uint8_t flip() const { return flip_; }
  void* At(void* y, int64_t element) const {
    return static_cast<std::byte*>(y) + element * (step_.is_float() ? int64_t{sizeof(float)} : 1);
  }

 private:
  QuantizedStep step_;
  uint8_t flip_;
  int32_t x_zero_;
  std::vector<int32_t> offset_;
  std::vector<float> factor_, shift_;
};

struct Int8Block {
  int64_t row, rows;
  int64_t first, last;  // panels of columns; groups when there are several
};
// Cuts rows, and where they are few, columns too. Results do not depend on the cuts.
void ForInt8Blocks(const OpContext& context, const Int8Weights& weights, int64_t rows,
                   FunctionRef<void(const Int8Block&)> body);

// Rows made ready, in the calling thread's scratch memory.
void* ReadyRows(int64_t rows, int64_t depth);

}  // namespace ferry
