#include "ops/support/broadcast.h"
#include "ops/support/elementwise.h"

namespace ferry {
namespace {

void CompareStrings(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor& b = context.Input(1);
  Tensor& out = context.Output(0, DType::kBool, BroadcastShapes(a.shape(), b.shape()));
  const std::string* x = a.Data<std::string>();
  const std::string* y = b.Data<std::string>();
  bool* to = out.MutableData<bool>();
  ForEachRun<2>(out.shape(), {&a.shape(), &b.shape()},
                [&](int64_t at, const auto& offsets, int64_t count, const auto& steps) {
                  for (int64_t i = 0; i < count; ++i)
                    to[at + i] = x[offsets[0] + i * steps[0]] == y[offsets[1] + i * steps[1]];
                });
}

DType EqualityType(DType type) { return type == DType::kBool ? DType::kUInt8 : AsUnsigned(type); }

void ComputeEqual(OpContext& context) {
  if (context.Input(0).dtype() == DType::kString && context.Input(1).dtype() == DType::kString)
    return CompareStrings(context);
  if (context.Input(0).dtype() == DType::kBool)
    return ComputeBinary(
        context, TypeList<uint8_t>{}, [](uint8_t a, uint8_t b) { return (a != 0) == (b != 0); }, EqualityType);
  ComputeBinary(
      context, TypeList<float, double, uint8_t, uint16_t, uint32_t, uint64_t>{}, [](auto a, auto b) { return a == b; },
      EqualityType);
}

void InferEqual(InferContext& context) {
  InferComparison(context);
  InferElements(context, 2, [](std::span<const Dim> x) {
    if (SameDim(x[0], x[1])) return Dim(1);
    if (x[0].known() && x[1].known()) return Dim(0);
    // A size that has a name is never negative: Equal(shape, -1), as exporters write it.
    const Dim& number = x[0].known() ? x[0] : x[1];
    const Dim& other = x[0].known() ? x[1] : x[0];
    return number.known() && *number.value < 0 && other.named() ? Dim(0) : Dim();
  });
}

constexpr auto kLess = [](auto a, auto b) { return a < b; };
constexpr auto kLessOrEqual = [](auto a, auto b) { return a <= b; };

// The greater comparisons are the less ones with their inputs swapped: the loops are compiled once.
template <class F>
void ComputeOrder(OpContext& context, bool swaps) {
  const Tensor& a = context.Input(swaps ? 1 : 0);
  const Tensor& b = context.Input(swaps ? 0 : 1);
  Require(a.dtype() == b.dtype(), "both inputs must have one element type, got ", a.dtype(), " and ", b.dtype());
  Tensor& out = context.Output(0, DType::kBool, BroadcastShapes(a.shape(), b.shape()));
  Dispatch(NumberTypes{}, ComputeType(a.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    RunBinary(context, a, b, out, [](const BinaryRun& run) { LoopOver<T>(run, F{}); });
  });
}

template <class F>
void InferOrder(InferContext& context) {
  InferComparison(context);
  InferElements(context, 2, [](std::span<const Dim> x) {
    return x[0].known() && x[1].known() ? Dim(F{}(*x[0].value, *x[1].value)) : Dim();
  });
}

void ComputeLess(OpContext& context) { ComputeOrder<decltype(kLess)>(context, false); }
void ComputeLessOrEqual(OpContext& context) { ComputeOrder<decltype(kLessOrEqual)>(context, false); }
void ComputeGreater(OpContext& context) { ComputeOrder<decltype(kLess)>(context, true); }
void ComputeGreaterOrEqual(OpContext& context) { ComputeOrder<decltype(kLessOrEqual)>(context, true); }

struct Greater {
  bool operator()(int64_t a, int64_t b) const { return a > b; }
};
struct GreaterOrEqual {
  bool operator()(int64_t a, int64_t b) const { return a >= b; }
};

}  // namespace

FERRY_OPERATOR(Equal, {.compute = ComputeEqual, .infer = InferEqual, .elementwise = Elementwise::kOfSeveral});
FERRY_OPERATOR(Greater,
               {.compute = ComputeGreater, .infer = InferOrder<Greater>, .elementwise = Elementwise::kOfSeveral});
FERRY_OPERATOR(GreaterOrEqual, {.compute = ComputeGreaterOrEqual,
                                .infer = InferOrder<GreaterOrEqual>,
                                .elementwise = Elementwise::kOfSeveral});
FERRY_OPERATOR(Less,
               {.compute = ComputeLess, .infer = InferOrder<decltype(kLess)>, .elementwise = Elementwise::kOfSeveral});
FERRY_OPERATOR(LessOrEqual, {.compute = ComputeLessOrEqual,
                             .infer = InferOrder<decltype(kLessOrEqual)>,
                             .elementwise = Elementwise::kOfSeveral});

}  // namespace ferry
