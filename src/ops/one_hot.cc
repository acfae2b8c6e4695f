#include <cmath>

#include "ops/operator.h"
#include "ops/support/elements.h"
#include "ops/support/movement.h"
#include "ops/support/scalar.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// Numbers of any type as the text has it: cast to int64. What no int64 holds becomes a number that is never an index.
std::vector<int64_t> AsInt64(const Tensor& tensor) {
  if (!IsFloating(tensor.dtype())) {
    std::vector<int64_t> values = ToInt64Vector(tensor);
    if (tensor.dtype() == DType::kUInt64)
      for (int64_t& value : values) value = value < 0 ? INT64_MAX : value;
    return values;
  }
  Tensor wide = WidenToFloat(tensor);
  std::vector<int64_t> values;
  Dispatch(FloatTypes{}, wide.dtype(), [&](auto tag) {
    for (auto value : wide.Span<typename decltype(tag)::type>())
      values.push_back(std::abs(value) < 0x1p62 ? static_cast<int64_t>(value) : INT64_MAX);
  });
  return values;
}

size_t OneHotAxis(const Node& node, size_t indices_rank) {
  return NormalizeAxis(node.Int("axis", -1), indices_rank + 1);
}

void ComputeOneHot(OpContext& context) {
  const Tensor& indices = context.Input(0);
  const Tensor& values = context.Input(2);
  Require(context.Input(1).size() == 1, "depth must be a single number, has shape ", context.Input(1).shape());
  Require(values.size() == 2, "values must be [off, on], have shape ", values.shape());
  int64_t depth = AsInt64(context.Input(1))[0];
  Require(depth >= 0, "depth ", depth, " is negative");
  size_t axis = OneHotAxis(context.node(), indices.rank());
  Shape shape = indices.shape();
  shape.insert(axis, depth);
  int64_t inner = indices.shape().CountBetween(axis, indices.rank());
  std::vector<int64_t> chosen = AsInt64(indices);
  Tensor choices = Movable(values);
  WriteMoved(context, 0, values.dtype(), shape, [&](Tensor& out) {
    FillAll(context, choices, 0, out);
    ForEachWidth(out.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* data = MutableRawData<T>(out);
      const T& on = RawData<T>(choices)[1];
      for (size_t i = 0; i < chosen.size(); ++i) {
        if (chosen[i] < -depth || chosen[i] >= depth) continue;
        int64_t hot = chosen[i] < 0 ? chosen[i] + depth : chosen[i], place = static_cast<int64_t>(i);
        data[(place / inner * depth + hot) * inner + place % inner] = on;
      }
    });
  });
}

void InferOneHot(InferContext& context) {
  const SymbolicShape* indices = context.InputShape(0);
  DType dtype = context.InputDType(2);
  if (!indices) return context.SetOutput(0, dtype);
  Dim depth = KnownScalar(context, 1);
  const Tensor* constant = context.InputConstant(1);
  if (depth.unknown() && constant && constant->size() == 1) depth = Dim(AsInt64(*constant)[0]);
  Require(!depth.known() || *depth.value >= 0, "depth ", depth, " is negative");
  SymbolicShape shape = *indices;
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(OneHotAxis(context.node(), indices->size())), depth);
  context.SetOutput(0, dtype, std::move(shape));
}

}  // namespace

FERRY_OPERATOR(OneHot, {.compute = ComputeOneHot, .infer = InferOneHot});

}  // namespace ferry
