// Products of bytes with 8-bit weights packed once (kernels/int8_gemm.h), cut into blocks for the run's threads.
#pragma once

#include <vector>

#include "engine/cpu/pack_int8.h"
#include "engine/provider.h"
#include "ops/support/quantized_step.h"

namespace ferry {

// Whether rows of bytes with this zero point (of unsigned bytes) are faster as signed ones.
bool ShouldBeSigned(int32_t zero);

// What becomes of sums over bytes of `x_type` whose zero point and bias are not taken off yet.
class Int8Finish {
 public:
  // Who makes the sums: only products may take signed rows.
  enum class Of { kProduct, kImage };
  // `packed` ends with the sums of the weights of each column.
  Int8Finish(Of maker, const QuantizedStep& step, DType x_type, std::shared_ptr<const Tensor> packed,
             WeightCache& cache, const Tensor& factor, const Tensor* bias, int64_t columns);

  const QuantizedStep& step() const { return step_; }
  // `y` is where row 0, column `column` goes.
  Int8Output Output(void* y, int64_t stride, int64_t column) const;
  // The byte that stands for 0, as the kernels' prepare has it and as it lies in memory.
  uint8_t ready_zero() const { return static_cast<uint8_t>(x_zero_); }
  uint8_t raw_zero() const { return static_cast<uint8_t>(x_zero_ ^ flip_); }
  uint8_t flip() const { return flip_; }
  bool has_signed_rows() const { return signed_rows_; }
  void* At(void* y, int64_t element) const {
    return static_cast<std::byte*>(y) + element * (step_.is_float() ? int64_t{sizeof(float)} : 1);
  }

 private:
  QuantizedStep step_;
  bool signed_rows_;
  uint8_t flip_;
  int32_t x_zero_;
  std::shared_ptr<std::vector<int32_t>> offset_;  // complete when the packed weights are
  std::vector<float> factor_, shift_;
};

struct Int8Block {
  int64_t row, rows;
  int64_t first, last;  // panels of columns; groups when there are several
};
// Cuts rows, and where they are few, columns too. Results do not depend on the cuts.
void ForInt8Blocks(const OpContext& context, const Int8Weights& weights, int64_t rows,
                   FunctionRef<void(const Int8Block&)> body);

// Rows made ready, in the calling thread's scratch memory, with room for kInt8Slack elements after the last.
inline constexpr int64_t kInt8Slack = 16;
void* ReadyRows(int64_t rows, int64_t depth);
// What the kernels want beside them, or null.
void* Int8Scratch(int64_t rows, int64_t depth);
// `rows` of `from` made ready there, or as they are where nothing has to be done.
const void* PrepareRows(const uint8_t* from, uint8_t flip, int64_t rows, int64_t depth);

}  // namespace ferry
