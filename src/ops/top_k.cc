#include <algorithm>

#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/elements.h"
#include "ops/support/infer.h"
#include "ops/support/order_keys.h"
#include "ops/support/scalar.h"

namespace ferry {
namespace {

struct Candidate {
  uint64_t key;  // smaller is better
  int64_t index;
  bool operator<(const Candidate& other) const { return key != other.key ? key < other.key : index < other.index; }
};

// The best `count` of the candidates come first, in order.
void SelectBest(std::vector<Candidate>& candidates, int64_t count) {
  auto end = candidates.begin() + count;
  WorkPoll poll;
  auto better = [&](const Candidate& a, const Candidate& b) {
    poll(1);
    return a < b;
  };
  // A few of many: a heap of the few. Otherwise a partition first.
  if (count < static_cast<int64_t>(candidates.size()) / 16)
    return std::partial_sort(candidates.begin(), end, candidates.end(), better);
  if (end != candidates.end()) std::nth_element(candidates.begin(), end, candidates.end(), better);
  std::sort(candidates.begin(), end, better);
}

void ComputeTopK(OpContext& context) {
  const Tensor& x = context.Input(0);
  int64_t count = ScalarInt(context.Input(1), "K");
  size_t axis = NormalizeAxis(context.node().Int("axis", -1), x.rank());
  int64_t length = x.dim(axis);
  Require(count >= 0 && count <= length, "K is ", count, ", axis ", axis, " has ", length, " elements");
  uint64_t flip = context.node().Int("largest", 1) != 0 ? ~uint64_t{0} : 0;
  Shape shape = x.shape();
  shape[axis] = count;
  Tensor& values = context.Output(0, x.dtype(), shape);
  Tensor& indices = context.Output(1, DType::kInt64, shape);
  if (values.size() == 0) return;
  int64_t outer = x.shape().CountBetween(0, axis), inner = x.shape().CountBetween(axis + 1, x.rank());
  std::vector<uint64_t> keys = OrderKeys(x);
  int64_t* chosen = indices.MutableData<int64_t>();
  context.ParallelFor(outer * inner, std::max<int64_t>(1, 4096 / length), [&](int64_t begin, int64_t end) {
    std::vector<Candidate> candidates;
    GrowTo(candidates, static_cast<size_t>(length));
    for (int64_t line = begin; line < end; ++line) {
      CheckRun();
      int64_t base = line / inner * length * inner + line % inner, to = line / inner * count * inner + line % inner;
      ForLookedParts(length, 4, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i)
          candidates[static_cast<size_t>(i)] = {keys[static_cast<size_t>(base + i * inner)] ^ flip, i};
      });
      SelectBest(candidates, count);
      for (int64_t k = 0; k < count; ++k) chosen[to + k * inner] = candidates[static_cast<size_t>(k)].index;
    }
  });
  ForEachWidth(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = RawData<T>(x);
    T* to = MutableRawData<T>(values);
    ForLookedParts(values.size(), 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = from[(i / (count * inner) * length + chosen[i]) * inner + i % inner];
    });
  });
}

void InferTopK(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  DType dtype = context.InputDType(0);
  if (!x) {
    context.SetOutput(0, dtype);
    return context.SetOutput(1, DType::kInt64);
  }
  SymbolicShape shape = *x;
  size_t axis = NormalizeAxis(context.node().Int("axis", -1), x->size());
  shape[axis] = KnownScalar(context, 1);
  shape = ShapeFromElements(shape);
  context.SetOutput(0, dtype, shape);
  context.SetOutput(1, DType::kInt64, std::move(shape));
}

}  // namespace

FERRY_OPERATOR(TopK, {.compute = ComputeTopK, .infer = InferTopK});

}  // namespace ferry
