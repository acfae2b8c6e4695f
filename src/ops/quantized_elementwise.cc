// QuantizedAdd: the sum of two quantized tensors of one shape, quantized again. QuantizedLookup: any function of one
// byte, as a table of 256. QuantizedMean: the mean over the spatial axes, channels first or (attribute channels_last)
// last. All of them made by passes/fold_qdq.
#include <algorithm>
#include <cmath>

#include "kernels/int8_nhwc.h"
#include "ops/operator.h"
#include "ops/support/fused.h"
#include "ops/support/infer.h"
#include "ops/support/quantized_step.h"

namespace ferry {
namespace {

constexpr int64_t kGrain = 1 << 15;

int32_t ZeroAttribute(const Node& node, const char* name) {
  int64_t zero = node.Int(name, 0);
  Require(zero >= -128 && zero <= 255, "attribute '", name, "' is ", zero, ", which is no byte");
  return static_cast<int32_t>(zero);
}

void ComputeQuantizedAdd(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor& b = context.Input(1);
  const Node& node = context.node();
  QuantizedStep step = QuantizedStep::Read(node);
  Require(IsByte(a.dtype()) && IsByte(b.dtype()) && IsByte(step.y_type), "a, b and y must be bytes");
  Require(a.shape() == b.shape(), "shapes ", a.shape(), " and ", b.shape(), " differ");
  Int8Sum sum;
  sum.a_flip = FlipOf(a.dtype()), sum.b_flip = FlipOf(b.dtype()), sum.y_flip = FlipOf(step.y_type);
  sum.a_factor = node.Float("a_factor", 1.0f), sum.b_factor = node.Float("b_factor", 1.0f);
  const float b_zero = sum.b_factor * static_cast<float>(ZeroAttribute(node, "b_zero"));
  sum.added = static_cast<float>(step.y_zero) - std::fma(sum.a_factor, static_cast<float>(step.x_zero), b_zero);
  sum.low = step.low, sum.high = step.high;
  const auto* from_a = BytesOf(a);
  const auto* from_b = BytesOf(b);
  auto* to = MutableBytesOf(context.Output(0, step.y_type, a.shape()));
  context.ParallelFor(a.size(), kGrain, [&](int64_t begin, int64_t end) {
    Int8Sum part = sum;
    part.a = from_a + begin, part.b = from_b + begin, part.y = to + begin;
    BestInt8NhwcKernels().add(part, end - begin);
  });
}

void InferQuantizedAdd(InferContext& context) {
  DType type = QuantizedStep::Read(context.node()).y_type;
  for (size_t i = 0; i < 2; ++i)
    if (const SymbolicShape* shape = context.InputShape(i)) return context.SetOutput(0, type, *shape);
  context.SetOutput(0, type);
}

void ComputeQuantizedLookup(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& table = context.Input(1);
  Require(IsByte(x.dtype()) && IsByte(table.dtype()) && table.size() == 256,
          "x must be bytes and the table 256 of them");
  const auto* from = BytesOf(x);
  const auto* results = BytesOf(table);
  auto* to = MutableBytesOf(context.Output(0, table.dtype(), x.shape()));
  context.ParallelFor(x.size(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = results[from[i]];
  });
}

void InferQuantizedLookup(InferContext& context) {
  if (const SymbolicShape* shape = context.InputShape(0)) return context.SetOutput(0, context.InputDType(1), *shape);
  context.SetOutput(0, context.InputDType(1));
}

// What step.Level makes of sums, by a rounding that needs no call: 1.5 · 2²³ leaves no room for a fraction.
void TakeLevels(const QuantizedStep& step, const std::vector<int32_t>& sums, float factor, uint8_t* y) {
  constexpr float kWhole = 12582912.0f;
  const auto least = static_cast<float>(step.low - step.y_zero), most = static_cast<float>(step.high - step.y_zero);
  for (size_t c = 0; c < sums.size(); ++c) {
    float value = static_cast<float>(sums[c]) * factor;
    value = !(value > least) ? least : value > most ? most : value;
    y[c] = static_cast<uint8_t>(static_cast<int32_t>(value + kWhole - kWhole) + step.y_zero);
  }
}

void ComputeQuantizedMean(OpContext& context) {
  const Tensor& x = context.Input(0);
  QuantizedStep step = QuantizedStep::Read(context.node());
  Require(x.rank() >= 3 && IsByte(x.dtype()), "the input must be an image of bytes");
  bool last = context.node().Int("channels_last", 0) != 0;
  int64_t batch = x.dim(0), channels = last ? x.shape().back() : x.dim(1);
  int64_t pixels = last ? x.shape().CountBetween(1, x.rank() - 1) : x.shape().CountBetween(2, x.rank());
  Shape shape = {batch};
  if (!last) shape.push_back(channels);
  if (context.node().Int("keepdims", 1) != 0)
    for (size_t axis = 2; axis < x.rank(); ++axis) shape.push_back(1);
  if (last) shape.push_back(channels);
  auto* y = MutableBytesOf(context.Output(0, step.y_type, shape));
  Require(IsByte(step.y_type) && pixels < (int64_t{1} << 23), "the mean of ", pixels, " pixels is not made of bytes");
  float factor = context.node().Float("factor", 1.0f) / static_cast<float>(std::max<int64_t>(pixels, 1));
  uint8_t flip = FlipOf(x.dtype());
  auto offset = static_cast<int32_t>(-pixels * (step.x_zero + flip));
  std::vector<int32_t> sums(static_cast<size_t>(channels));
  for (int64_t image = 0; image < batch; ++image) {
    const auto* from = BytesOf(x) + image * pixels * channels;
    std::fill(sums.begin(), sums.end(), offset);
    if (last)
      BestInt8NhwcKernels().add_rows(from, pixels, channels, flip, sums.data());
    else
      for (int64_t i = 0; i < pixels * channels; ++i)
        sums[static_cast<size_t>(i / pixels)] += static_cast<uint8_t>(from[i] ^ flip);
    TakeLevels(step, sums, factor, y + image * channels);
  }
}

void InferQuantizedMean(InferContext& context) {
  DType type = QuantizedStep::Read(context.node()).y_type;
  const SymbolicShape* x = context.InputShape(0);
  if (!x || x->size() < 3) return context.SetOutput(0, type);
  bool last = context.node().Int("channels_last", 0) != 0;
  SymbolicShape shape = {x->front()};
  if (!last) shape.push_back((*x)[1]);
  if (context.node().Int("keepdims", 1) != 0) shape.resize(shape.size() + x->size() - 2, Dim(1));
  if (last) shape.push_back(x->back());
  context.SetOutput(0, type, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(internal, QuantizedAdd,
                  {.compute = ComputeQuantizedAdd, .infer = InferQuantizedAdd, .in_place = kInput0 | kInput1});
FERRY_OPERATOR_IN(internal, QuantizedLookup,
                  {.compute = ComputeQuantizedLookup, .infer = InferQuantizedLookup, .in_place = kInput0});
FERRY_OPERATOR_IN(internal, QuantizedMean, {.compute = ComputeQuantizedMean, .infer = InferQuantizedMean});

}  // namespace ferry
