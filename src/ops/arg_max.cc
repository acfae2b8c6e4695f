#include <algorithm>

#include "base/work_poll.h"
#include "ops/support/elementwise.h"

namespace ferry {
namespace {

constexpr int64_t kColumns = 128;

// Finds, for each of `columns` neighbouring lines, where its best element is. NaN is better than any number, as in
// numpy.
template <class Better, class T>
void FindBest(const T* x, int64_t count, int64_t stride, int64_t columns, bool takes_last, int64_t* index) {
  T best[kColumns];
  std::copy_n(x, columns, best);
  std::fill_n(index, columns, 0);
  ForLookedParts(count - 1, columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin + 1; row <= end; ++row) {
      const T* values = x + row * stride;
      for (int64_t j = 0; j < columns; ++j) {
        T value = values[j];
        bool wins = Better{}(value, best[j]) || (value != value && best[j] == best[j]);
        bool draws = value == best[j] || (value != value && best[j] != best[j]);
        if (wins || (takes_last && draws)) {
          best[j] = value;
          index[j] = row;
        }
      }
    }
  });
}

Shape ArgShape(const Shape& shape, size_t axis, bool keeps) {
  Shape out = shape;
  if (keeps)
    out[axis] = 1;
  else
    out.erase(axis);
  return out;
}

template <class Better>
void ComputeArg(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Node& node = context.node();
  size_t axis = NormalizeAxis(node.Int("axis", 0), x.rank());
  bool takes_last = node.Int("select_last_index", 0) != 0;
  Tensor& y = context.Output(0, DType::kInt64, ArgShape(x.shape(), axis, node.Int("keepdims", 1) != 0));
  if (y.size() == 0) return;
  int64_t count = x.dim(axis), inner = x.shape().CountBetween(axis + 1, x.rank());
  Require(count > 0, "axis ", axis, " of shape ", x.shape(), " is empty: there is no best element");
  int64_t outer = x.shape().CountBetween(0, axis), blocks = (inner + kColumns - 1) / kColumns;
  int64_t grain = std::max<int64_t>(1, kElementGrain / count / std::min(inner, kColumns));
  Tensor wide = IsSmallFloat(x.dtype()) ? WidenToFloat(x) : x;
  int64_t* index = y.MutableData<int64_t>();
  Dispatch(NumberTypes{}, wide.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* values = wide.Data<T>();
    context.ParallelFor(outer * blocks, grain, [&](int64_t first, int64_t last) {
      for (int64_t block = first; block < last; ++block) {
        int64_t line = block / blocks, column = block % blocks * kColumns;
        FindBest<Better>(values + line * count * inner + column, count, inner, std::min(kColumns, inner - column),
                         takes_last, index + line * inner + column);
      }
    });
  });
}

void InferArg(InferContext& context) {
  const SymbolicShape* shape = context.InputShape(0);
  if (!shape) return context.SetOutput(0, DType::kInt64);
  SymbolicShape out = *shape;
  size_t axis = NormalizeAxis(context.node().Int("axis", 0), out.size());
  if (context.node().Int("keepdims", 1) != 0)
    out[axis] = Dim(1);
  else
    out.erase(out.begin() + static_cast<ptrdiff_t>(axis));
  context.SetOutput(0, DType::kInt64, std::move(out));
}

struct Larger {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct Smaller {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};

}  // namespace

FERRY_OPERATOR(ArgMax, {.compute = ComputeArg<Larger>, .infer = InferArg});
FERRY_OPERATOR(ArgMin, {.compute = ComputeArg<Smaller>, .infer = InferArg});

}  // namespace ferry
