#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "ops/support/cast_tensor.h"
#include "ops/support/elementwise.h"
#include "ops/support/scale_runs.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

constexpr int64_t kPiece = 512;

// Adding and taking away one and a half times the value of the last mantissa bit rounds to the nearest even integer,
// for numbers well inside the mantissa.
float RoundSmall(float x) { return (x + 12582912.0f) - 12582912.0f; }
double RoundSmall(double x) { return (x + 6755399441055744.0) - 6755399441055744.0; }

struct Range {
  int32_t low, high;
};

Range RangeOf(DType type) {
  int bits = BitWidth(type);
  if (IsSignedInteger(type)) return {-(1 << (bits - 1)), (1 << (bits - 1)) - 1};
  return {0, (1 << bits) - 1};
}

// What the quotient is computed in, and what it is then rounded to.
struct Precision {
  DType compute;
  DType rounded;  // undefined: as computed
};

Precision PrecisionOf(const Node& node, DType x, DType scale) {
  DType asked = TypeAttribute(node, "precision", scale);
  Require(IsFloating(asked) || asked == scale, "attribute 'precision' must name a float type, is ", asked);
  bool is_half = asked == DType::kFloat16 || asked == DType::kBFloat16;
  // int32 has more digits than float: where either side is int32, the quotient is taken in double.
  bool is_double = asked == DType::kDouble || x == DType::kInt32 || scale == DType::kInt32;
  return {is_double ? DType::kDouble : DType::kFloat, is_half ? asked : DType::kUndefined};
}

struct Operands {
  Tensor x, scale, zero_point;  // of the compute type; the zero point may be undefined
  DType rounded;
};

// x / scale for a piece of a run.
template <class W>
void Quotients(const Operands& operands, const ScaleRun& run, int64_t at, int64_t count, W* out) {
  const W* x = operands.x.Data<W>() + run.first + at;
  const W* scale = operands.scale.Data<W>() + run.scale + (run.advances ? at : 0);
  if (run.advances)
    for (int64_t i = 0; i < count; ++i) out[i] = x[i] / scale[i];
  else
    for (int64_t i = 0; i < count; ++i) out[i] = x[i] / scale[0];
  if (operands.rounded == DType::kUndefined) return;
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t piece = std::min(kPiece, count - first);
    float values[kPiece];
    uint16_t codes[kPiece];
    std::transform(out + first, out + first + piece, values, [](W value) { return static_cast<float>(value); });
    NarrowRun(operands.rounded, values, codes, piece);
    WidenRun(operands.rounded, codes, values, piece);
    std::copy_n(values, piece, out + first);
  }
}

template <class W>
W ZeroPoint(const Operands& operands, const ScaleRun& run, int64_t i) {
  if (!operands.zero_point.defined()) return 0;
  return operands.zero_point.Data<W>()[run.scale + (run.advances ? i : 0)];
}

template <class Out, class W>
void QuantizeRun(const Operands& operands, const ScaleRun& run, Range range, Out* y) {
  W quotients[kPiece];
  for (int64_t at = 0; at < run.count; at += kPiece) {
    int64_t count = std::min(kPiece, run.count - at);
    Quotients(operands, run, at, count, quotients);
    Out* to = y + run.first + at;
    auto quantized = [&](W value, W zero) {
      // Both limits are integers, so cutting before rounding is the same; NaN becomes the lower one.
      W low = static_cast<W>(range.low) - zero, high = static_cast<W>(range.high) - zero;
      W cut = !(value > low) ? low : value > high ? high : value;
      return static_cast<Out>(static_cast<int32_t>(RoundSmall(cut) + zero));
    };
    if (run.advances) {
      for (int64_t i = 0; i < count; ++i) to[i] = quantized(quotients[i], ZeroPoint<W>(operands, run, at + i));
    } else {
      const W zero = ZeroPoint<W>(operands, run, 0);
      for (int64_t i = 0; i < count; ++i) to[i] = quantized(quotients[i], zero);
    }
  }
}

void QuantizeToIntegers(const OpContext& context, const Operands& operands, const ScaleRuns& runs, Tensor& y) {
  Range range = RangeOf(y.dtype());
  bool packs = IsPacked(y.dtype());
  Tensor bytes = packs ? Tensor(IsSignedInteger(y.dtype()) ? DType::kInt8 : DType::kUInt8, y.shape()) : y;
  Dispatch(TypeList<int8_t, uint8_t, int16_t, uint16_t>{}, bytes.dtype(), [&](auto out_tag) {
    using Out = typename decltype(out_tag)::type;
    Dispatch(FloatTypes{}, operands.x.dtype(), [&](auto tag) {
      using W = typename decltype(tag)::type;
      runs.ForEach(context,
                   [&](const ScaleRun& run) { QuantizeRun<Out, W>(operands, run, range, bytes.MutableData<Out>()); });
    });
  });
  if (!packs) return;
  Tensor packed = Tensor::Pack(y.dtype(), bytes);
  if (packed.bytes() > 0) std::memcpy(y.mutable_raw(), packed.raw(), packed.bytes());
}

void QuantizeToFloats(const OpContext& context, const Operands& operands, const ScaleRuns& runs, Tensor& y) {
  Tensor values(operands.x.dtype(), y.shape());
  Dispatch(FloatTypes{}, values.dtype(), [&](auto tag) {
    using W = typename decltype(tag)::type;
    W* out = values.MutableData<W>();
    runs.ForEach(context, [&](const ScaleRun& run) {
      Quotients(operands, run, 0, run.count, out + run.first);
      for (int64_t i = 0; i < run.count; ++i) out[run.first + i] += ZeroPoint<W>(operands, run, i);
    });
  });
  CastOptions options;
  if (context.node().Int("saturate", 1) == 0) options.float8_overflow = Overflow::kSpecial;
  CastInto(values, y, options);
}

DType QuantizedType(const Node& node, DType zero_point) {
  DType type = TypeAttribute(node, "output_dtype", zero_point);
  Require(zero_point == DType::kUndefined || type == zero_point, "attribute 'output_dtype' is ", type,
          " but the zero point is ", zero_point);
  return type == DType::kUndefined ? DType::kUInt8 : type;
}

void ComputeQuantizeLinear(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& scale = context.Input(1);
  const Tensor* zero_point = context.OptionalInput(2);
  DType type = QuantizedType(context.node(), zero_point ? zero_point->dtype() : DType::kUndefined);
  bool is_integer = IsInteger(type) && BitWidth(type) <= 16;
  Require(is_integer || (IsSmallFloat(type) && BitWidth(type) <= 8 && type != DType::kFloat8E8M0), type,
          " is not a type to quantize to");
  ScaleRuns runs(context.node(), x.shape(), scale, zero_point);
  Precision precision = PrecisionOf(context.node(), x.dtype(), scale.dtype());
  Operands operands{CastTensor(x, precision.compute), CastTensor(scale, precision.compute),
                    zero_point ? CastTensor(*zero_point, precision.compute) : Tensor(), precision.rounded};
  Tensor& y = context.Output(0, type, x.shape());
  is_integer ? QuantizeToIntegers(context, operands, runs, y) : QuantizeToFloats(context, operands, runs, y);
}

void InferQuantizeLinear(InferContext& context) {
  // A zero point whose type is not known yet leaves the output's type open.
  bool is_open = context.Has(2) && context.InputDType(2) == DType::kUndefined && !context.node().Has("output_dtype");
  DType type = is_open ? DType::kUndefined : QuantizedType(context.node(), context.InputDType(2));
  if (const SymbolicShape* shape = context.InputShape(0)) return context.SetOutput(0, type, *shape);
  context.SetOutput(0, type);
}

}  // namespace

FERRY_OPERATOR(QuantizeLinear, {.compute = ComputeQuantizeLinear, .infer = InferQuantizeLinear});

}  // namespace ferry
