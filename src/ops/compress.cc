#include "base/poll.h"
#include "ops/operator.h"
#include "ops/support/infer.h"
#include "ops/support/take.h"

namespace ferry {
namespace {

void ComputeCompress(OpContext& context) {
  const Tensor& input = context.Input(0);
  const Tensor& condition = context.Input(1);
  Require(condition.rank() == 1, "the condition must have rank 1, has shape ", condition.shape());
  bool has_axis = context.node().Has("axis");
  Tensor data = has_axis ? input : input.Reshaped({input.size()});
  size_t axis = has_axis ? NormalizeAxis(context.node().Int("axis", 0), data.rank()) : 0;
  std::vector<int64_t> chosen;
  Poll poll;
  for (int64_t i = 0; i < condition.size(); ++i, poll()) {
    if (!condition.Data<bool>()[i]) continue;
    Require(i < data.dim(axis), "the condition selects position ", i, ", axis ", axis, " has size ", data.dim(axis));
    chosen.push_back(i);
  }
  Shape shape = data.shape();
  shape[axis] = static_cast<int64_t>(chosen.size());
  WriteTaken(context, 0, data, axis, chosen, shape);
}

void InferCompress(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  DType dtype = context.InputDType(0);
  bool has_axis = context.node().Has("axis");
  if (has_axis && !data) return context.SetOutput(0, dtype);
  SymbolicShape shape = has_axis ? *data : UnknownShape(1);
  size_t axis = has_axis ? NormalizeAxis(context.node().Int("axis", 0), data->size()) : 0;
  shape[axis] = Dim();
  if (const Tensor* condition = context.InputConstant(1); condition && condition->dtype() == DType::kBool) {
    int64_t count = 0;
    for (bool is_set : condition->Span<bool>()) count += is_set;
    shape[axis] = Dim(count);
  }
  context.SetOutput(0, dtype, std::move(shape));
}

}  // namespace

FERRY_OPERATOR(Compress, {.compute = ComputeCompress, .infer = InferCompress, .moves_elements = true});

}  // namespace ferry
