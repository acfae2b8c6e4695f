#include "ops/support/scalar.h"

#include <algorithm>

#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {

int64_t ScalarInt(const Tensor& tensor, const char* what) {
  Require(tensor.size() == 1, what, " must be a scalar, is of shape ", tensor.shape());
  return ToInt64Vector(tensor)[0];
}

double ScalarFloat(const Tensor& tensor, const char* what) {
  Require(tensor.size() == 1, what, " must be a scalar, is of shape ", tensor.shape());
  Tensor wide = WidenToFloat(tensor);
  return wide.dtype() == DType::kDouble ? *wide.Data<double>() : static_cast<double>(*wide.Data<float>());
}

Dim KnownScalar(const InferContext& context, size_t input) {
  if (const SymbolicShape* elements = context.InputElements(input))
    return elements->size() == 1 ? elements->front() : Dim();
  auto values = context.InputInts(input);
  return values && values->size() == 1 ? Dim((*values)[0]) : Dim();
}

void StoreDoubles(std::span<const double> values, Tensor& out) {
  if (IsSmallFloat(out.dtype())) {
    Tensor wide(DType::kFloat, out.shape());
    StoreDoubles(values, wide);
    return NarrowInto(wide, out);
  }
  Dispatch(NumberTypes{}, out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::transform(values.begin(), values.end(), out.MutableData<T>(), [](double v) { return static_cast<T>(v); });
  });
}

DType NumericTypeAttribute(const Node& node, const char* name) {
  int64_t number = node.Int(name, static_cast<int64_t>(DType::kFloat));
  if (IsValidDType(number)) {
    auto type = static_cast<DType>(number);
    if ((IsFloating(type) || IsInteger(type)) && BitWidth(type) >= 8) return type;
  }
  Fail(ErrorCode::kInvalidModel, "attribute '", name, "' names no numeric type: ", number);
}

}  // namespace ferry
