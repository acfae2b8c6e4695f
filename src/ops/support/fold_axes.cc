#include "ops/support/fold_axes.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/work_poll.h"
#include "ops/support/dispatch.h"
#include "ops/support/elementwise.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// One pass folds the middle of [outer, count, inner].
struct Pass {
  int64_t outer, count, inner;
};

template <class T>
using Total = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

struct SumOf {
  template <class T>
  static constexpr Total<T> Neutral() {
    return 0;
  }
  template <class T>
  static Total<T> Map(T x) {
    return static_cast<Total<T>>(x);
  }
  template <class A>
  static A Join(A a, A b) {
    return a + b;
  }
};

struct SumOfAbs : SumOf {
  template <class T>
  static Total<T> Map(T x) {
    auto wide = static_cast<Total<T>>(x);
    return x < T{0} ? 0 - wide : wide;
  }
};

struct SumOfSquares : SumOf {
  template <class T>
  static Total<T> Map(T x) {
    return static_cast<Total<T>>(x) * static_cast<Total<T>>(x);
  }
};

struct ProductOf : SumOf {
  template <class T>
  static constexpr Total<T> Neutral() {
    return 1;
  }
  template <class A>
  static A Join(A a, A b) {
    return a * b;
  }
};

struct MaxOf {
  template <class T>
  static constexpr T Neutral() {
    return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  }
  template <class T>
  static T Map(T x) {
    return x;
  }
  template <class T>
  static T Join(T a, T b) {
    return a != a || a > b ? a : b;
  }
};

struct MinOf : MaxOf {
  template <class T>
  static constexpr T Neutral() {
    return std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  template <class T>
  static T Join(T a, T b) {
    return a != a || a < b ? a : b;
  }
};

// Independent lanes: the processor adds them side by side, and the sum errs less than one running total would.
template <class Rule, class T>
auto FoldRow(const T* x, int64_t count) {
  constexpr int kLanes = 8;
  using A = decltype(Rule::template Neutral<T>());
  A lanes[kLanes];
  std::fill_n(lanes, kLanes, Rule::template Neutral<T>());
  ForLookedParts(count / kLanes, kLanes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * kLanes; i < end * kLanes; i += kLanes)
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = Rule::Join(lanes[lane], A{Rule::Map(x[i + lane])});
  });
  for (int64_t i = count / kLanes * kLanes; i < count; ++i) lanes[0] = Rule::Join(lanes[0], A{Rule::Map(x[i])});
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) lanes[lane] = Rule::Join(lanes[lane], lanes[lane + width]);
  return lanes[0];
}

constexpr int64_t kColumns = 256;

template <class Rule, class T, class A>
void FoldColumns(const Pass& pass, const T* x, A* out, int64_t columns) {
  A totals[kColumns];
  std::fill_n(totals, columns, Rule::template Neutral<T>());
  ForLookedParts(pass.count, columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row, x += pass.inner)
      for (int64_t j = 0; j < columns; ++j) totals[j] = Rule::Join(totals[j], A{Rule::Map(x[j])});
  });
  std::copy_n(totals, columns, out);
}

template <class Rule, class T, class A>
void RunPass(const OpContext& context, const Pass& pass, const T* x, A* out) {
  int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, pass.count));
  if (pass.inner == 1) {
    context.ParallelFor(pass.outer, grain, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) out[row] = FoldRow<Rule>(x + row * pass.count, pass.count);
    });
    return;
  }
  int64_t blocks = (pass.inner + kColumns - 1) / kColumns;
  context.ParallelFor(pass.outer * blocks, std::max<int64_t>(1, grain / kColumns), [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      int64_t outer = block / blocks, column = block % blocks * kColumns;
      FoldColumns<Rule>(pass, x + outer * pass.count * pass.inner + column, out + outer * pass.inner + column,
                        std::min(kColumns, pass.inner - column));
    }
  });
}

// The passes that fold the marked axes, innermost first. Neighbouring axes of one kind go together.
std::vector<Pass> PassesOf(const Shape& shape, const std::vector<bool>& reduced) {
  std::vector<Pass> passes;
  int64_t inner = 1;
  for (size_t end = shape.rank(); end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && reduced[begin - 1] == reduced[end - 1]) --begin;
    int64_t count = shape.CountBetween(begin, end);
    if (reduced[end - 1])
      passes.push_back({shape.CountBetween(0, begin), count, inner});
    else
      inner *= count;
    end = begin;
  }
  // With nothing to fold, elements are still mapped: sets of one.
  if (passes.empty()) passes.push_back({shape.ElementCount(), 1, 1});
  return passes;
}

template <class Rule, class... Ts>
Tensor FoldOnce(const OpContext& context, TypeList<Ts...> types, const Tensor& x, const Pass& pass) {
  Tensor result;
  Dispatch(types, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = decltype(Rule::template Neutral<T>());
    result = Tensor(kDTypeOf<A>, Shape{CheckedProduct(pass.outer, pass.inner)});
    RunPass<Rule>(context, pass, x.Data<T>(), result.MutableData<A>());
  });
  return result;
}

using SummedTypes = TypeList<float, double, int32_t, int64_t, uint32_t, uint64_t>;
using ComparedTypes = TypeList<float, double, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t>;

Tensor FoldOnce(const OpContext& context, const Tensor& x, const Pass& pass, Fold fold) {
  switch (fold) {
    case Fold::kSum: return FoldOnce<SumOf>(context, SummedTypes{}, x, pass);
    case Fold::kSumOfAbs: return FoldOnce<SumOfAbs>(context, SummedTypes{}, x, pass);
    case Fold::kSumOfSquares: return FoldOnce<SumOfSquares>(context, SummedTypes{}, x, pass);
    case Fold::kProduct: return FoldOnce<ProductOf>(context, SummedTypes{}, x, pass);
    case Fold::kMax: return FoldOnce<MaxOf>(context, ComparedTypes{}, x, pass);
    default: return FoldOnce<MinOf>(context, ComparedTypes{}, x, pass);
  }
}

}  // namespace

Tensor FoldAxes(const OpContext& context, const Tensor& x, const std::vector<bool>& reduced, Fold fold) {
  Tensor result = IsSmallFloat(x.dtype()) ? WidenToFloat(x) : x;
  if (x.dtype() == DType::kBool) result = x.ViewedAs(DType::kUInt8);
  for (const Pass& pass : PassesOf(x.shape(), reduced)) {
    result = FoldOnce(context, result, pass, fold);
    // Absolute values and squares are taken once; what is left is to add them up.
    if (fold == Fold::kSumOfAbs || fold == Fold::kSumOfSquares) fold = Fold::kSum;
  }
  if (result.dtype() == DType::kUInt64 && fold != Fold::kMax && fold != Fold::kMin)
    result = result.ViewedAs(DType::kInt64);
  Shape kept = x.shape();
  for (size_t axis = 0; axis < kept.rank(); ++axis)
    if (reduced[axis]) kept[axis] = 1;
  return result.Reshaped(kept);
}

}  // namespace ferry
