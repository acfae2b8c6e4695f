// Products of bytes with 8-bit weights packed once (kernels/int8_gemm.h), cut into blocks for the run's threads.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/support/quantized_step.h"
#include "providers/cpu/kernels.h"
#include "providers/cpu/pack_int8.h"

namespace ferry {

// Whether rows of bytes with this zero point (of unsigned bytes) are faster as signed ones.
bool ShouldBeSigned(int32_t zero);

// What becomes of sums over bytes of `x_type` whose zero point and bias are not taken off yet.
class Int8Finish {
 public:
  // Who makes the sums: only products may take signed rows.
  enum class Of { kProduct, kImage };
  Int8Finish(Of maker, const QuantizedStep& step, DType x_type, const Tensor& factor, const Tensor* bias,
             int64_t columns);

  const QuantizedStep& step() const { return step_; }
  // What is added to the sums over columns [first, first + count), given the sums of their weights; kInt8PanelWidth
  // more are set to 0.
  void TakeOffsets(const int32_t* sums, int64_t first, int64_t count, int32_t* offsets) const;
  // The same for all columns of packed weights, which end with their sums; made once.
  const int32_t* OffsetsOf(const Tensor& packed) const;
  // `y` is where row 0, column `column` goes; `offset` is that column's.
  Int8Output Output(void* y, int64_t stride, int64_t column, const int32_t* offset) const;
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
  struct Offsets {
    std::mutex mutex;
    std::atomic<bool> known = false;
    std::vector<int32_t> values;
  };
  std::vector<int32_t> added_;  // without what the zero point takes off
  std::shared_ptr<Offsets> offsets_ = std::make_shared<Offsets>();
  std::vector<float> factor_, shift_;
};

// Some columns of weights that are packed by now; all of them where there are several groups.
struct Int8Part {
  int64_t first;
  Int8Shape shape;
  const int8_t* panels;
  const int32_t* offsets;

  const int8_t* PanelsOf(int64_t group, int64_t column) const {
    return panels + group * PackedInt8Size(shape.depth, shape.columns) + (column - first) * PaddedDepth(shape.depth);
  }
};
// All columns at once with what is kept; what a session's first run packs on the way is near the processor while
// `body` uses it.
void ForInt8Parts(const OpContext& context, const Int8Weights& weights, const Int8Finish& finish,
                  FunctionRef<void(const Int8Part&)> body);

struct Int8Block {
  int64_t row, rows;
  int64_t first, last;  // panels of columns; groups when there are several
};
// Cuts rows, and where they are few, columns too. Results do not depend on the cuts.
void ForInt8Blocks(const OpContext& context, const Int8Shape& shape, int64_t rows,
                   FunctionRef<void(const Int8Block&)> body);

// Rows made ready, in the calling thread's scratch memory, with room for kInt8Slack elements after the last.
inline constexpr int64_t kInt8Slack = 16;
void* ReadyRows(int64_t rows, int64_t depth);
// What the kernels want beside them, or null.
void* Int8Scratch(int64_t rows, int64_t depth);
// `rows` of `from` made ready there, or as they are where nothing has to be done.
const void* PrepareRows(const uint8_t* from, uint8_t flip, int64_t rows, int64_t depth);

}  // namespace ferry
