#include "ops/support/elementwise.h"

#include <algorithm>

namespace ferry {
namespace {

// Small floats are widened piece by piece: a piece stays in the first-level cache.
constexpr int64_t kPiece = 512;

const std::byte* At(const void* base, int64_t index, size_t width) {
  return static_cast<const std::byte*>(base) + index * static_cast<int64_t>(width);
}
std::byte* At(void* base, int64_t index, size_t width) {
  return static_cast<std::byte*>(base) + index * static_cast<int64_t>(width);
}

size_t WidthOf(const Tensor& tensor) {
  Require(BitWidth(tensor.dtype()) >= 8, "element type ", tensor.dtype(), " is not one this operator is defined for");
  return static_cast<size_t>(BitWidth(tensor.dtype()) / 8);
}

}  // namespace

void RunMap(const OpContext& context, const Tensor& x, Tensor& y, MapLoop loop) {
  size_t x_width = WidthOf(x), y_width = WidthOf(y);
  bool widens = IsSmallFloat(x.dtype()), narrows = IsSmallFloat(y.dtype());
  const std::byte* from = x.raw();
  std::byte* to = y.mutable_raw();
  context.ParallelFor(x.size(), kElementGrain, [&](int64_t begin, int64_t end) {
    if (!widens && !narrows) return loop(At(from, begin, x_width), At(to, begin, y_width), end - begin);
    float wide_x[kPiece], wide_y[kPiece];
    for (int64_t at = begin; at < end; at += kPiece) {
      int64_t count = std::min(kPiece, end - at);
      if (widens) WidenRun(x.dtype(), At(from, at, x_width), wide_x, count);
      const void* run_x = widens ? static_cast<const void*>(wide_x) : At(from, at, x_width);
      loop(run_x, narrows ? static_cast<void*>(wide_y) : At(to, at, y_width), count);
      if (narrows) NarrowRun(y.dtype(), wide_y, At(to, at, y_width), count);
    }
  });
}

namespace {

// Runs `loop` over a run whose operands (and perhaps result) are small floats.
void RunWidened(const BinaryRun& run, DType in, DType out, BinaryLoop loop) {
  size_t in_width = static_cast<size_t>(BitWidth(in) / 8), out_width = static_cast<size_t>(BitWidth(out) / 8);
  bool narrows = IsSmallFloat(out);
  float a[kPiece], b[kPiece], result[kPiece];
  if (!run.a_advances) WidenRun(in, run.a, a, 1);
  if (!run.b_advances) WidenRun(in, run.b, b, 1);
  for (int64_t at = 0; at < run.count; at += kPiece) {
    int64_t count = std::min(kPiece, run.count - at);
    if (run.a_advances) WidenRun(in, At(run.a, at, in_width), a, count);
    if (run.b_advances) WidenRun(in, At(run.b, at, in_width), b, count);
    std::byte* to = At(run.out, at, out_width);
    loop({a, b, narrows ? static_cast<void*>(result) : to, count, run.a_advances, run.b_advances});
    if (narrows) NarrowRun(out, result, to, count);
  }
}

}  // namespace

void RunBinary(const OpContext& context, const Tensor& a, const Tensor& b, Tensor& out, BinaryLoop loop) {
  BroadcastWalk<2> walk(out.shape(), {&a.shape(), &b.shape()});
  size_t in_width = WidthOf(a), out_width = WidthOf(out);
  bool a_advances = walk.run_strides()[0] != 0, b_advances = walk.run_strides()[1] != 0;
  bool widens = IsSmallFloat(a.dtype());
  RunPieces(context, walk, [&](int64_t result, const std::array<int64_t, 2>& offsets, int64_t count) {
    BinaryRun run{At(a.raw(), offsets[0], in_width),
                  At(b.raw(), offsets[1], in_width),
                  At(out.mutable_raw(), result, out_width),
                  count,
                  a_advances,
                  b_advances};
    if (widens)
      RunWidened(run, a.dtype(), out.dtype(), loop);
    else
      loop(run);
  });
}

DType AsUnsigned(DType type) {
  switch (type) {
    case DType::kInt8: return DType::kUInt8;
    case DType::kInt16: return DType::kUInt16;
    case DType::kInt32: return DType::kUInt32;
    case DType::kInt64: return DType::kUInt64;
    default: return ComputeType(type);
  }
}

}  // namespace ferry
