#include <cstring>
#include <string>

#include "ops/support/cast_tensor.h"
#include "ops/support/elementwise.h"

namespace ferry {
namespace {

CastOptions OptionsOf(const Node& node) {
  CastOptions options;
  if (node.Int("saturate", 1) == 0) options.float8_overflow = Overflow::kSpecial;
  std::string mode = node.String("round_mode", "up");
  if (mode == "down")
    options.scale_rounding = ScaleRounding::kDown;
  else if (mode == "nearest")
    options.scale_rounding = ScaleRounding::kNearest;
  else
    Require(mode == "up", "attribute 'round_mode' must be \"up\", \"down\" or \"nearest\", is \"", Printable(mode),
            "\"");
  return options;
}

DType TargetOf(const Node& node) {
  DType type = TypeAttribute(node, "to", DType::kUndefined);
  if (type == DType::kUndefined) Fail(ErrorCode::kInvalidModel, "attribute 'to' is missing");
  return type;
}

void CastOutput(OpContext& context, DType type) {
  const Tensor& x = context.Input(0);
  Tensor& y = context.Output(0, type, x.shape());
  CastOptions options = OptionsOf(context.node());
  bool is_plain = BitWidth(x.dtype()) >= 8 && BitWidth(type) >= 8 && !IsComplex(x.dtype()) && !IsComplex(type);
  if (!is_plain || x.dtype() == type) return CastInto(x, y, options);
  context.ParallelFor(x.size(), kElementGrain,
                      [&](int64_t begin, int64_t end) { CastRange(x, y, begin, end, options); });
}

void InferCastTo(InferContext& context, DType type) {
  if (const SymbolicShape* shape = context.InputShape(0))
    context.SetOutput(0, type, *shape);
  else
    context.SetOutput(0, type);
  std::optional<SymbolicShape> elements = ElementsOf(context, 0);
  bool is_index = type == DType::kInt64 || type == DType::kInt32 || type == DType::kBool;
  if (!elements || !is_index || context.input_count() == 0) return;
  for (Dim& element : *elements) {
    if (type == DType::kBool) {
      element = element.known() ? Dim(*element.value != 0) : Dim();
    } else if (type == DType::kInt32 && element.known() && *element.value != static_cast<int32_t>(*element.value)) {
      element = Dim();
    }
  }
  context.SetOutputElements(0, std::move(*elements));
}

void ComputeCast(OpContext& context) { CastOutput(context, TargetOf(context.node())); }
void InferCast(InferContext& context) { InferCastTo(context, TargetOf(context.node())); }

void ComputeCastLike(OpContext& context) { CastOutput(context, context.Input(1).dtype()); }
void InferCastLike(InferContext& context) { InferCastTo(context, context.InputDType(1)); }

void ComputeBitCast(OpContext& context) {
  const Tensor& x = context.Input(0);
  DType type = TargetOf(context.node());
  Require(BitWidth(type) > 0 && BitWidth(type) == BitWidth(x.dtype()), x.dtype(), " and ", type,
          " have different widths: bits cannot be kept");
  Tensor& y = context.Output(0, type, x.shape());
  if (type == DType::kBool) {
    // A bool has two patterns; a byte that is neither counts as true.
    auto* bytes = reinterpret_cast<const uint8_t*>(x.raw());
    for (int64_t i = 0; i < x.size(); ++i) y.MutableData<bool>()[i] = bytes[i] != 0;
  } else if (x.bytes() > 0 && x.raw() != y.raw()) {
    std::memcpy(y.mutable_raw(), x.raw(), x.bytes());
  }
}

void InferBitCast(InferContext& context) {
  DType type = TargetOf(context.node());
  if (const SymbolicShape* shape = context.InputShape(0)) return context.SetOutput(0, type, *shape);
  context.SetOutput(0, type);
}

}  // namespace

FERRY_OPERATOR(Cast, {.compute = ComputeCast, .infer = InferCast, .elementwise = Elementwise::kOfOne});
FERRY_OPERATOR(CastLike, {.compute = ComputeCastLike, .infer = InferCastLike});
FERRY_OPERATOR(BitCast, {.compute = ComputeBitCast,
                         .infer = InferBitCast,
                         .in_place = kInput0,
                         .elementwise = Elementwise::kOfOne});

}  // namespace ferry
