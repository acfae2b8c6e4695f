#include <algorithm>
#include <numeric>

#include "base/poll.h"
#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/infer.h"
#include "ops/support/order_keys.h"
#include "ops/support/take.h"

namespace ferry {
namespace {

// Which of the parts along an axis are the same: for each distinct one where it is first, and how often it occurs.
struct Distinct {
  std::vector<int64_t> first;
  std::vector<int64_t> counts;
  std::vector<int64_t> inverse;  // for each part the distinct one that it is
};

// The keys of every part side by side: [parts, keys per part].
std::vector<uint64_t> KeysByPart(const Tensor& data, size_t axis) {
  std::vector<uint64_t> keys = OrderKeys(data);
  int64_t outer = data.shape().CountBetween(0, axis), parts = data.dim(axis);
  if (outer <= 1 || keys.empty()) return keys;
  int64_t width = static_cast<int64_t>(keys.size()) / (outer * parts);
  std::vector<uint64_t> arranged(keys.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t p = 0; p < parts; ++p)
      std::copy_n(keys.begin() + (o * parts + p) * width, width, arranged.begin() + (p * outer + o) * width);
  return arranged;
}

Distinct FindDistinct(const Tensor& data, size_t axis, bool sorted) {
  auto parts = static_cast<size_t>(data.dim(axis));
  Distinct found;
  GrowTo(found.inverse, parts);
  if (parts == 0) return found;
  std::vector<uint64_t> keys = KeysByPart(data, axis);
  size_t width = keys.size() / parts;
  auto key = [&](int64_t part) { return keys.begin() + part * static_cast<ptrdiff_t>(width); };
  Poll poll;
  auto compare = [&](int64_t a, int64_t b) {
    poll();
    auto [x, y] = std::mismatch(key(a), key(a) + static_cast<ptrdiff_t>(width), key(b));
    return x == key(a) + static_cast<ptrdiff_t>(width) ? 0 : *x < *y ? -1 : 1;
  };
  std::vector<int64_t> order;
  GrowTo(order, parts);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  for (size_t i = 0; i < parts; ++i) {
    if (i == 0 || compare(order[i - 1], order[i]) != 0) {
      found.first.push_back(order[i]);
      found.counts.push_back(0);
    }
    ++found.counts.back();
    found.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(found.first.size()) - 1;
  }
  if (sorted) return found;

  std::vector<int64_t> by_first(found.first.size()), rank(found.first.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::sort(by_first.begin(), by_first.end(), [&](int64_t a, int64_t b) {
    return found.first[static_cast<size_t>(a)] < found.first[static_cast<size_t>(b)];
  });
  Distinct reordered;
  for (size_t i = 0; i < by_first.size(); ++i) {
    auto old = static_cast<size_t>(by_first[i]);
    reordered.first.push_back(found.first[old]);
    reordered.counts.push_back(found.counts[old]);
    rank[old] = static_cast<int64_t>(i);
  }
  for (int64_t old : found.inverse) reordered.inverse.push_back(rank[static_cast<size_t>(old)]);
  return reordered;
}

void WriteList(OpContext& context, size_t i, const std::vector<int64_t>& list) {
  Tensor& out = context.Output(i, DType::kInt64, {static_cast<int64_t>(list.size())});
  std::copy(list.begin(), list.end(), out.MutableData<int64_t>());
}

void ComputeUnique(OpContext& context) {
  const Tensor& input = context.Input(0);
  bool has_axis = context.node().Has("axis");
  Tensor data = has_axis ? input : input.Reshaped({input.size()});
  size_t axis = has_axis ? NormalizeAxis(context.node().Int("axis", 0), data.rank()) : 0;
  Distinct distinct = FindDistinct(data, axis, context.node().Int("sorted", 1) != 0);
  Shape shape = data.shape();
  shape[axis] = static_cast<int64_t>(distinct.first.size());
  WriteTaken(context, 0, data, axis, distinct.first, shape);
  if (context.Wants(1)) WriteList(context, 1, distinct.first);
  if (context.Wants(2)) WriteList(context, 2, distinct.inverse);
  if (context.Wants(3)) WriteList(context, 3, distinct.counts);
}

void InferUnique(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  DType dtype = context.InputDType(0);
  bool has_axis = context.node().Has("axis");
  Dim parts;
  if (has_axis && !data) {
    context.SetOutput(0, dtype);
  } else {
    SymbolicShape shape = has_axis ? *data : UnknownShape(1);
    size_t axis = has_axis ? NormalizeAxis(context.node().Int("axis", 0), shape.size()) : 0;
    if (data) parts = has_axis ? shape[axis] : CountElements(*data);
    // One part is always distinct, none never is.
    shape[axis] = parts.known() && *parts.value <= 1 ? parts : Dim();
    context.SetOutput(0, dtype, std::move(shape));
  }
  Dim distinct = parts.known() && *parts.value <= 1 ? parts : Dim();
  context.SetOutput(1, DType::kInt64, {distinct});
  context.SetOutput(2, DType::kInt64, {parts});
  context.SetOutput(3, DType::kInt64, {distinct});
}

}  // namespace

FERRY_OPERATOR(Unique, {.compute = ComputeUnique, .infer = InferUnique});

}  // namespace ferry
