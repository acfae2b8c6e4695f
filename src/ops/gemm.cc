#include "kernels/gemm.h"

#include "ops/operator.h"
#include "ops/support/broadcast.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"
#include "ops/support/wrapping.h"

namespace ferry {
namespace {

struct GemmNode {
  bool transpose_a, transpose_b;
  float alpha, beta;
  int64_t m, n, k;

  GemmNode(const Node& node, const Shape& a, const Shape& b)
      : transpose_a(node.Int("transA", 0) != 0),
        transpose_b(node.Int("transB", 0) != 0),
        alpha(node.Float("alpha", 1.0f)),
        beta(node.Float("beta", 1.0f)) {
    Require(a.rank() == 2 && b.rank() == 2, "A and B must be matrices, have shapes ", a, " and ", b);
    m = a[transpose_a ? 1 : 0];
    k = a[transpose_a ? 0 : 1];
    n = b[transpose_b ? 0 : 1];
    Require(k == b[transpose_b ? 1 : 0], "inner sizes differ: ", a, transpose_a ? "ᵀ" : "", " × ", b,
            transpose_b ? "ᵀ" : "");
  }
};

// A real factor times a value of T; integers go through double and are cut to whole numbers.
template <class T>
T Scaled(float factor, T value) {
  if (factor == 1.0f) return value;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(factor) * value;
  } else {
    double product = static_cast<double>(factor) * static_cast<double>(value);
    constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
    if (!(product > kLow)) return std::numeric_limits<T>::min();
    if (product >= kHigh) return std::numeric_limits<T>::max();
    return static_cast<T>(product);
  }
}

template <class T, class Body>
void ForEachAddend(const Tensor& c, const Tensor& y, const Body& body) {
  const T* from = c.Data<T>();
  ForEachRun<1>(y.shape(), {&c.shape()}, [&](int64_t at, auto offsets, int64_t count, auto strides) {
    for (int64_t i = 0; i < count; ++i) body(at + i, from[offsets[0] + i * strides[0]]);
  });
}

template <class T>
void RunGemm(const OpContext& context, const GemmNode& node, const Tensor& a, const Tensor& b, const Tensor* c,
             Tensor& y) {
  using Wrapping = std::conditional_t<std::is_floating_point_v<T>, TypeTag<T>, std::make_unsigned<T>>;
  using Word = typename Wrapping::type;
  T* to = y.MutableData<T>();
  // With alpha 1 the addend is laid down first and the product comes on top of it.
  bool add_first = c && node.alpha == 1.0f;
  if (add_first) ForEachAddend<T>(*c, y, [&](int64_t i, T value) { to[i] = Scaled(node.beta, value); });
  Gemm<Word>({.m = node.m,
              .n = node.n,
              .k = node.k,
              .a = reinterpret_cast<const Word*>(a.raw()),
              .a_row = node.transpose_a ? 1 : node.k,
              .a_col = node.transpose_a ? node.m : 1,
              .b = reinterpret_cast<const Word*>(b.raw()),
              .b_row = node.transpose_b ? 1 : node.n,
              .b_col = node.transpose_b ? node.k : 1,
              .c = reinterpret_cast<Word*>(to),
              .c_row = node.n,
              .accumulate = add_first},
             context.services().pool);
  if (node.alpha != 1.0f)
    for (int64_t i = 0; i < y.size(); ++i) to[i] = Scaled(node.alpha, to[i]);
  if (c && !add_first)
    ForEachAddend<T>(*c, y, [&](int64_t i, T value) { to[i] = WrappingAdd(to[i], Scaled(node.beta, value)); });
}

void ComputeGemm(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor& b = context.Input(1);
  const Tensor* c = context.OptionalInput(2);
  Require(a.dtype() == b.dtype() && (!c || c->dtype() == a.dtype()), "A, B and C must have one type");
  GemmNode node(context.node(), a.shape(), b.shape());
  Tensor& y = context.Output(0, a.dtype(), Shape{node.m, node.n});
  if (y.size() == 0) return;
  bool is_small = IsSmallFloat(a.dtype());
  Tensor result = is_small ? Tensor(DType::kFloat, y.shape()) : y;
  Tensor wide_a = is_small ? WidenToFloat(a) : a, wide_b = is_small ? WidenToFloat(b) : b;
  Tensor wide_c = c ? (is_small ? WidenToFloat(*c) : *c) : Tensor();
  Dispatch(TypeList<float, double, int32_t, int64_t, uint32_t, uint64_t>{}, wide_a.dtype(), [&](auto tag) {
    RunGemm<typename decltype(tag)::type>(context, node, wide_a, wide_b, c ? &wide_c : nullptr, result);
  });
  NarrowInto(result, y);
}

void InferGemm(InferContext& context) {
  const SymbolicShape* a = context.InputShape(0);
  const SymbolicShape* b = context.InputShape(1);
  for (const SymbolicShape* shape : {a, b})
    if (shape) Require(shape->size() == 2, "A and B must be matrices, one has shape ", *shape);
  bool transpose_a = context.node().Int("transA", 0) != 0, transpose_b = context.node().Int("transB", 0) != 0;
  if (a && b) {
    const Dim& a_depth = (*a)[transpose_a ? 0 : 1];
    const Dim& b_depth = (*b)[transpose_b ? 1 : 0];
    Require(!a_depth.known() || !b_depth.known() || SameDim(a_depth, b_depth), "inner sizes differ: ", *a,
            transpose_a ? "ᵀ" : "", " × ", *b, transpose_b ? "ᵀ" : "");
  }
  context.SetOutput(0, context.InputDType(0),
                    {a ? (*a)[transpose_a ? 1 : 0] : Dim(), b ? (*b)[transpose_b ? 0 : 1] : Dim()});
}

}  // namespace

FERRY_OPERATOR(Gemm, {.compute = ComputeGemm, .infer = InferGemm, .reads_anywhere = kInput1});

}  // namespace ferry
