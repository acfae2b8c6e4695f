#include "ops/support/elementwise.h"

namespace ferry {
namespace {

// Bools are read as bytes: one that came from elsewhere may hold any of 256 values.
template <class F>
void ComputeLogical(OpContext& context) {
  for (size_t i = 0; i < 2; ++i)
    Require(context.Input(i).dtype() == DType::kBool, "input ", i, " must be bool, got ", context.Input(i).dtype());
  ComputeBinary(
      context, TypeList<uint8_t>{}, [](uint8_t a, uint8_t b) { return bool{F{}(a != 0, b != 0)}; },
      +[](DType) { return DType::kUInt8; });
}

template <class F>
void InferLogical(InferContext& context) {
  InferComparison(context);
  InferElements(context, 2, [](std::span<const Dim> x) {
    return x[0].known() && x[1].known() ? Dim(F{}(*x[0].value != 0, *x[1].value != 0)) : Dim();
  });
}

template <class F>
constexpr Operator Logical(F) {
  return {.compute = ComputeLogical<F>,
          .infer = InferLogical<F>,
          .in_place = kInput0 | kInput1,
          .elementwise = Elementwise::kOfSeveral};
}

void ComputeNot(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.dtype() == DType::kBool, "the input must be bool, got ", x.dtype());
  Tensor& y = context.Output(0, DType::kBool, x.shape());
  RunMap(context, x, y, [](const void* from, void* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) static_cast<bool*>(to)[i] = static_cast<const uint8_t*>(from)[i] == 0;
  });
}

void InferNot(InferContext& context) {
  InferComparison(context);
  InferElements(context, 1, [](std::span<const Dim> x) { return x[0].known() ? Dim(*x[0].value == 0) : Dim(); });
}

}  // namespace

FERRY_OPERATOR(And, (Logical([](bool a, bool b) { return a && b; })));
FERRY_OPERATOR(Or, (Logical([](bool a, bool b) { return a || b; })));
FERRY_OPERATOR(Xor, (Logical([](bool a, bool b) { return a != b; })));
FERRY_OPERATOR(Not, (ElementMap(ComputeNot, InferNot)));

}  // namespace ferry
