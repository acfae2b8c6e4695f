// The cheapest path through a matrix of costs from the first corner to the last, as rows and columns.
#include <cmath>
#include <vector>

#include "ops/operator.h"

namespace ferry {
namespace {

enum Step : uint8_t { kBoth, kRow, kColumn };

void ComputeDynamicTimeWarping(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.dtype() == DType::kFloat && (x.rank() == 2 || (x.rank() == 3 && x.dim(0) == 1)),
          "the input must be a matrix of floats, is ", x.dtype(), x.shape());
  int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1), width = columns + 1;
  std::vector<float> cost(static_cast<size_t>((rows + 1) * width), HUGE_VALF);
  std::vector<Step> step(cost.size());
  cost[0] = 0;
  auto at = [&](int64_t i, int64_t j) { return static_cast<size_t>(i * width + j); };
  for (int64_t j = 1; j <= columns; ++j)
    for (int64_t i = 1; i <= rows; ++i) {
      float both = cost[at(i - 1, j - 1)], row = cost[at(i - 1, j)], column = cost[at(i, j - 1)];
      // Of equal ones the step along the columns is taken.
      Step best = both < row && both < column ? kBoth : row < both && row < column ? kRow : kColumn;
      step[at(i, j)] = best;
      cost[at(i, j)] = (best == kBoth  ? both
                        : best == kRow ? row
                                       : column) +
                       x.Data<float>()[(i - 1) * columns + j - 1];
    }
  std::vector<std::pair<int64_t, int64_t>> path;
  for (int64_t i = rows, j = columns; i > 0 && j > 0;) {
    path.emplace_back(i - 1, j - 1);
    Step taken = step[at(i, j)];
    if (taken != kColumn) --i;
    if (taken != kRow) --j;
  }
  auto count = static_cast<int64_t>(path.size());
  int32_t* out = context.Output(0, DType::kInt32, Shape{2, count}).MutableData<int32_t>();
  for (int64_t k = 0; k < count; ++k) {
    out[k] = static_cast<int32_t>(path[static_cast<size_t>(count - 1 - k)].first);
    out[count + k] = static_cast<int32_t>(path[static_cast<size_t>(count - 1 - k)].second);
  }
}

void InferDynamicTimeWarping(InferContext& context) { context.SetOutput(0, DType::kInt32, {Dim(2), Dim()}); }

}  // namespace

FERRY_OPERATOR_IN(microsoft, DynamicTimeWarping,
                  {.compute = ComputeDynamicTimeWarping, .infer = InferDynamicTimeWarping});

}  // namespace ferry
