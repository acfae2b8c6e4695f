#include "providers/cpu/int8_product.h"

#include <algorithm>

#include "base/check_run.h"
#include "providers/cpu/conv.h"
#include "providers/cpu/cuts.h"
#include "providers/cpu/scratch.h"

namespace ferry {

bool ShouldBeSigned(int32_t zero) { return BestInt8Kernels().takes_signed && zero >= 64 && zero < 192; }

Int8Finish::Int8Finish(Of maker, const QuantizedStep& step, DType x_type, const Tensor& factor, const Tensor* bias,
                       int64_t count)
    : step_(step),
      signed_rows_(maker == Of::kProduct && ShouldBeSigned(step.x_zero + FlipOf(x_type))),
      flip_(signed_rows_ ? FlipOf(x_type) ^ kSignFlip : FlipOf(x_type)),
      x_zero_(step.x_zero + FlipOf(x_type) - (signed_rows_ ? kSignFlip : 0)) {
  QuantizedColumns columns(step, factor, bias, count);
  auto padded = static_cast<size_t>(count + kInt8PanelWidth);
  added_.resize(static_cast<size_t>(count));
  factor_.resize(padded);
  if (columns.has_shift()) shift_.resize(padded);
  for (int64_t n = 0; n < count; ++n) {
    auto at = static_cast<size_t>(n);
    added_[at] = columns.added(n);
    factor_[at] = columns.factor(n);
    if (columns.has_shift()) shift_[at] = columns.shift(n);
  }
}

void Int8Finish::TakeOffsets(const int32_t* sums, int64_t first, int64_t count, int32_t* offsets) const {
  const auto zero = static_cast<uint32_t>(x_zero_);
  for (int64_t n = 0; n < count; ++n) {
    const auto added = static_cast<uint32_t>(added_[static_cast<size_t>(first + n)]);
    offsets[n] = static_cast<int32_t>(added - zero * static_cast<uint32_t>(sums[n]));
  }
  std::fill_n(offsets + count, kInt8PanelWidth, 0);
}

const int32_t* Int8Finish::OffsetsOf(const Tensor& packed) const {
  Offsets& all = *offsets_;
  if (!all.known.load(std::memory_order_acquire)) {
    std::lock_guard lock(all.mutex);
    if (!all.known) {
      const auto count = static_cast<int64_t>(added_.size());
      all.values.resize(factor_.size());
      TakeOffsets(SumsBehind(packed, count), 0, count, all.values.data());
      all.known.store(true, std::memory_order_release);
    }
  }
  return all.values.data();
}

Int8Output Int8Finish::Output(void* y, int64_t stride, int64_t column, const int32_t* offset) const {
  Int8Output out;
  out.kind = step_.is_float() ? Int8Output::Kind::kFloats : Int8Output::Kind::kBytes;
  // Kernels count columns from where their arrays begin.
  out.c = y;
  out.stride = stride;
  out.offset = offset;
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

void ForInt8Parts(const OpContext& context, const Int8Weights& weights, const Int8Finish& finish,
                  FunctionRef<void(const Int8Part&)> body) {
  constexpr int64_t kMostBytes = 512 << 10, kPieceBytes = 32 << 10, kWidth = kInt8PanelWidth;
  const Int8Shape& shape = weights.shape;
  if (const Tensor* kept = weights.packed.Find())
    return body({0, shape, kept->Data<int8_t>(), finish.OffsetsOf(*kept)});
  const int64_t panel = PackedInt8Size(shape.depth, kWidth);
  const int64_t width = std::min(PaddedColumns(shape.columns), std::max<int64_t>(1, kMostBytes / panel) * kWidth);
  const int64_t size = width / kWidth * panel;
  auto* panels = ThreadScratch<int8_t>(ScratchUse::kPanels, size + (2 * width + kWidth) * 4);
  auto* sums = reinterpret_cast<int32_t*>(panels + size);
  for (int64_t first = 0; first < shape.columns; first += width) {
    const int64_t columns = std::min(width, shape.columns - first);
    context.ParallelFor(PaddedColumns(columns) / kWidth, 1 + kPieceBytes / panel, [&](int64_t begin, int64_t end) {
      const int64_t column = begin * kWidth;
      weights.pack(first + column, std::min(columns, end * kWidth) - column, panels + begin * panel, sums + column);
    });
    finish.TakeOffsets(sums, first, columns, sums + width);
    body({first, {1, shape.depth, columns}, panels, sums + width});
  }
}

void ForInt8Blocks(const OpContext& context, const Int8Shape& shape, int64_t rows,
                   FunctionRef<void(const Int8Block&)> body) {
  if (rows == 0) return;
  int64_t units = shape.groups > 1 ? shape.groups : PaddedColumns(shape.columns) / kInt8PanelWidth;
  if (rows == 0 || units == 0) return;
  int64_t threads = context.services().pool ? context.services().pool->threads() : 1;
  int64_t block_rows = BlockRows(rows, shape.depth, threads), blocks = (rows + block_rows - 1) / block_rows, parts = 1;
  // Rows are made ready for each part again, so that there should be few.
  int64_t wanted = threads, work = rows * shape.depth * shape.columns * shape.groups;
  if (threads > 1 && blocks < wanted) parts = std::clamp<int64_t>((wanted + blocks - 1) / blocks, 1, units);
  int64_t items = blocks * parts;
  int64_t grain = std::max<int64_t>(1, items * (kPieceWork / 2) / std::max<int64_t>(1, work));
  context.ParallelFor(items, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      int64_t row = item / parts * block_rows, part = item % parts;
      CheckRun();
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
