// Elementwise kernels: an operator gives a loop over a run of elements, compiled once per type that arithmetic is done
// in. Threads, broadcasting and the floats narrower than float are handled around it, once for all operators.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "base/function_ref.h"
#include "ops/operator.h"
#include "ops/support/broadcast.h"
#include "ops/support/dispatch.h"
#include "ops/support/infer.h"
#include "ops/support/widen.h"

namespace ferry {

// Elements that are worth a thread of their own when each costs a nanosecond or so.
inline constexpr int64_t kElementGrain = 16384;

// Visits all runs of a walk on the run's threads: visit(result offset, operand offsets, element count). A long run is
// cut.
template <size_t N, class Visitor>
void RunPieces(const OpContext& context, const BroadcastWalk<N>& walk, const Visitor& visit) {
  if (walk.runs() == 1) {
    context.ParallelFor(walk.run_length(), kElementGrain, [&](int64_t begin, int64_t end) {
      std::array<int64_t, N> offsets;
      for (size_t n = 0; n < N; ++n) offsets[n] = begin * walk.run_strides()[n];
      visit(begin, offsets, end - begin);
    });
    return;
  }
  int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, walk.run_length()));
  context.ParallelFor(walk.runs(), grain, [&](int64_t first, int64_t last) {
    walk.Visit(first, last, [&](int64_t result, const std::array<int64_t, N>& offsets) {
      visit(result, offsets, walk.run_length());
    });
  });
}

// y = f(x) over `count` elements. Runs see small floats as float, on either side.
using MapLoop = FunctionRef<void(const void* x, void* y, int64_t count)>;
void RunMap(const OpContext& context, const Tensor& x, Tensor& y, MapLoop loop);

// An operand either advances with the result or stays on one element for the whole run.
struct BinaryRun {
  const void* a;
  const void* b;
  void* out;
  int64_t count;
  bool a_advances, b_advances;
};
using BinaryLoop = FunctionRef<void(const BinaryRun&)>;
// out's shape is what a and b broadcast to, or larger.
void RunBinary(const OpContext& context, const Tensor& a, const Tensor& b, Tensor& out, BinaryLoop loop);

// Arithmetic that wraps is the same for both signs: one loop serves both.
DType AsUnsigned(DType type);

template <class T, class F>
void LoopOver(const BinaryRun& run, const F& f) {
  using Result = decltype(f(T{}, T{}));
  auto* a = static_cast<const T*>(run.a);
  auto* b = static_cast<const T*>(run.b);
  auto* out = static_cast<Result*>(run.out);
  if (run.a_advances && run.b_advances) {
    for (int64_t i = 0; i < run.count; ++i) out[i] = f(a[i], b[i]);
  } else if (run.a_advances) {
    const T fixed = *b;
    for (int64_t i = 0; i < run.count; ++i) out[i] = f(a[i], fixed);
  } else if (run.b_advances) {
    const T fixed = *a;
    for (int64_t i = 0; i < run.count; ++i) out[i] = f(fixed, b[i]);
  } else {
    std::fill_n(out, run.count, f(*a, *b));
  }
}

template <class... Ts, class F>
void MapElements(OpContext& context, TypeList<Ts...> types, const F& f) {
  const Tensor& x = context.Input(0);
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Dispatch(types, ComputeType(x.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    RunMap(context, x, y, [&](const void* from, void* to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) static_cast<T*>(to)[i] = f(static_cast<const T*>(from)[i]);
    });
  });
}

// f(T, T) gives T, or bool for comparisons. `compute` is the type to do it in when it is not the inputs' own.
template <class... Ts, class F>
void ComputeBinary(OpContext& context, TypeList<Ts...> types, const F& f, DType (*compute)(DType) = ComputeType) {
  const Tensor& a = context.Input(0);
  const Tensor& b = context.Input(1);
  Require(a.dtype() == b.dtype(), "both inputs must have one element type, got ", a.dtype(), " and ", b.dtype());
  Dispatch(types, compute(a.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr bool kCompares = std::is_same_v<decltype(f(T{}, T{})), bool>;
    Tensor& out = context.Output(0, kCompares ? DType::kBool : a.dtype(), BroadcastShapes(a.shape(), b.shape()));
    RunBinary(context, a, b, out, [&](const BinaryRun& run) { LoopOver<T>(run, f); });
  });
}

// The operator of a function of one element that keeps its type.
constexpr Operator ElementMap(void (*compute)(OpContext&), void (*infer)(InferContext&) = InferSameAsInput) {
  return {.compute = compute, .infer = infer, .in_place = kInput0, .elementwise = Elementwise::kOfOne};
}

// The operator of a function of one float. F is a lambda without captures: its type is all that is needed.
template <class F>
void ComputeFloatMap(OpContext& context) {
  MapElements(context, FloatTypes{}, F{});
}
template <class F>
constexpr Operator FloatMap(F) {
  return ElementMap(ComputeFloatMap<F>);
}

// The same for a function that depends on attributes: F makes it from the node.
template <class F>
void ComputeFloatMapOfNode(OpContext& context) {
  MapElements(context, FloatTypes{}, F{}(context.node()));
}
template <class F>
constexpr Operator FloatMapOfNode(F) {
  return ElementMap(ComputeFloatMapOfNode<F>);
}

}  // namespace ferry
