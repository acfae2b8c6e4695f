#include "engine/cpu/int8_product.h"

#include <algorithm>

#include "engine/cpu/conv.h"
#include "engine/cpu/cuts.h"
#include "engine/cpu/scratch.h"

namespace ferry {

bool ShouldBeSigned(int32_t zero) { return BestInt8Kernels().takes_signed && zero >= 64 && zero < 192; }

Int8Finish::Int8Finish(Of maker, const QuantizedStep& step, DType x_type, std::shared_ptr<const Tensor> packed,
                       WeightCache& cache, const Tensor& factor, const Tensor* bias, int64_t count)
    : step_(step),
      signed_rows_(maker == Of::kProduct && ShouldBeSigned(step.x_zero + FlipOf(x_type))),
      flip_(signed_rows_ ? FlipOf(x_type) ^ kSignFlip : FlipOf(x_type)),
      x_zero_(step.x_zero + FlipOf(x_type) - (signed_rows_ ? kSignFlip : 0)) {
  QuantizedColumns columns(step, factor, bias, count);
  auto padded = static_cast<size_t>(count + kInt8PanelWidth);
  offset_ = std::make_shared<std::vector<int32_t>>(padded);
  factor_.resize(padded);
  if (columns.has_shift()) shift_.resize(padded);
  for (int64_t n = 0; n < count; ++n) {
    auto at = static_cast<size_t>(n);
    (*offset_)[at] = columns.added(n);
    factor_[at] = columns.factor(n);
    if (columns.has_shift()) shift_[at] = columns.shift(n);
  }
  cache.WhenMade([packed = std::move(packed), offset = offset_, zero = static_cast<uint32_t>(x_zero_), count] {
    const int32_t* sums = SumsBehind(*packed, count);
    for (int64_t n = 0; n < count; ++n) {
      int32_t& at = (*offset)[static_cast<size_t>(n)];
      at = static_cast<int32_t>(static_cast<uint32_t>(at) - zero * static_cast<uint32_t>(sums[n]));
    }
  });
}

Int8Output Int8Finish::Output(void* y, int64_t stride, int64_t column) const {
  Int8Output out;
  out.kind = step_.is_float() ? Int8Output::Kind::kFloats : Int8Output::Kind::kBytes;
  // Kernels count columns from where their arrays begin.
  out.c = y;
  out.stride = stride;
  out.offset = offset_->data() + column;
  out.factor = factor_.data() + column;
  out.shift = shift_.empty() ? nullptr : shift_.data() + column;
  out.zero = step_.y_zero, out.low = step_.low, out.high = step_.high;
  return out;
}

namespace {

// Rows that are made ready at once, in blocks of about one size. A panel's weights are widened for each block; rows are
// read in order, so that more than fit the second-level cache come in time.
int64_t BlockRows(int64_t rows, int64_t depth, int64_t threads) {
  constexpr int64_t kReadyBytes = 800 << 10, kMost = 192;
  const Int8Kernels& kernels = BestInt8Kernels();
  int64_t tile = kernels.tile_rows, most = kReadyBytes / (PaddedDepth(depth) * kernels.element_bytes);
  most = std::clamp<int64_t>(most / tile * tile, 2 * tile, kMost / tile * tile);
  int64_t blocks = std::max<int64_t>(1, (rows + most - 1) / most);
  if (blocks > 1) blocks = (blocks + threads - 1) / threads * threads;  // as many for each
  int64_t even = (rows + blocks - 1) / blocks;
  return std::max<int64_t>(1, (even + tile - 1) / tile) * tile;
}

}  // namespace

void ForInt8Blocks(const OpContext& context, const Int8Weights& weights, int64_t rows,
                   FunctionRef<void(const Int8Block&)> body) {
  int64_t units = weights.groups > 1 ? weights.groups : PaddedColumns(weights.columns) / kInt8PanelWidth;
  int64_t threads = context.services().pool ? context.services().pool->threads() : 1;
  int64_t block_rows = BlockRows(rows, weights.depth, threads), blocks = (rows + block_rows - 1) / block_rows,
          parts = 1;
  // Rows are made ready for each part again, so that there should be few.
  int64_t wanted = 2 * threads, work = rows * weights.depth * weights.columns * weights.groups;
  if (threads > 1 && blocks < wanted) parts = std::clamp<int64_t>((wanted + blocks - 1) / blocks, 1, units);
  int64_t items = blocks * parts;
  int64_t grain = std::max<int64_t>(1, items * (kPieceWork / 2) / std::max<int64_t>(1, work));
  context.ParallelFor(items, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      int64_t row = item / parts * block_rows, part = item % parts;
      body(Int8Block{row, std::min(block_rows, rows - row), units * part / parts, units * (part + 1) / parts});
    }
  });
}

void* ReadyRows(int64_t rows, int64_t depth) {
  return ThreadScratch<std::byte>(ScratchUse::kWidenedRows,
                                  (rows * PaddedDepth(depth) + kInt8Slack) * BestInt8Kernels().element_bytes);
}

void* Int8Scratch(int64_t rows, int64_t depth) {
  int64_t bytes = rows * PaddedDepth(depth) * BestInt8Kernels().scratch_bytes;
  return bytes > 0 ? ThreadScratch<std::byte>(ScratchUse::kWinograd, bytes) : nullptr;
}

const void* PrepareRows(const uint8_t* from, uint8_t flip, int64_t rows, int64_t depth) {
  const Int8Kernels& kernels = BestInt8Kernels();
  int64_t padded = PaddedDepth(depth);
  if (padded == depth && flip == 0 && kernels.element_bytes == 1) return from;
  void* ready = ReadyRows(rows, depth);
  if (padded == depth) {
    kernels.prepare(from, flip, rows * depth, ready);
    return ready;
  }
  for (int64_t i = 0; i < rows; ++i) {
    std::byte* to = static_cast<std::byte*>(ready) + i * padded * kernels.element_bytes;
    kernels.prepare(from + i * depth, flip, depth, to);
    // What pads the depth meets weights of zero, but must be some number.
    kernels.fill(0, padded - depth, to + depth * kernels.element_bytes);
  }
  return ready;
}

}  // namespace ferry
