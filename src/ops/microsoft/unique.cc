// Unique in the order of first appearance, with each element's place and how often each appears.
#include <unordered_map>

#include "ops/operator.h"

namespace ferry {
namespace {

void ComputeUnique(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.rank() == 1 && x.dtype() == DType::kFloat, "x must be a list of floats, is ", x.dtype(), x.shape());
  int64_t* places = context.Output(1, DType::kInt64, x.shape()).MutableData<int64_t>();
  std::unordered_map<float, int64_t> known;
  std::vector<float> values;
  std::vector<int64_t> counts;
  for (float value : x.Span<float>()) {
    auto [it, is_new] = known.emplace(value, static_cast<int64_t>(values.size()));
    if (is_new) {
      values.push_back(value);
      counts.push_back(0);
    }
    *places++ = it->second;
    ++counts[static_cast<size_t>(it->second)];
  }
  Shape shape{static_cast<int64_t>(values.size())};
  std::copy(values.begin(), values.end(), context.Output(0, DType::kFloat, shape).MutableData<float>());
  std::copy(counts.begin(), counts.end(), context.Output(2, DType::kInt64, shape).MutableData<int64_t>());
}

void InferUnique(InferContext& context) {
  context.SetOutput(0, context.InputDType(0), {Dim()});
  if (const SymbolicShape* x = context.InputShape(0))
    context.SetOutput(1, DType::kInt64, *x);
  else
    context.SetOutput(1, DType::kInt64);
  context.SetOutput(2, DType::kInt64, {Dim()});
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, Unique, {.compute = ComputeUnique, .infer = InferUnique});

}  // namespace ferry
