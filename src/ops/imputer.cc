#include <cmath>
#include <limits>

#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/infer.h"

namespace ferry {
namespace {

template <class T, class Imputed>
void Impute(const Tensor& x, Tensor& y, const std::vector<Imputed>& imputed, Imputed replaced) {
  int64_t features = x.rank() == 0 ? 1 : x.shape().back();
  Require(imputed.size() == 1 || static_cast<int64_t>(imputed.size()) == features, "there are ", imputed.size(),
          " imputed values for ", features, " features; give 1 or one for each");
  const T* from = x.Data<T>();
  T* to = y.MutableData<T>();
  bool replaces_nan = std::is_floating_point_v<T> && std::isnan(static_cast<double>(replaced));
  for (int64_t i = 0; i < x.size(); ++i) {
    bool missing = replaces_nan ? from[i] != from[i] : from[i] == replaced;
    to[i] = missing ? static_cast<T>(imputed[imputed.size() == 1 ? 0 : i % features]) : from[i];
  }
}

void ComputeImputer(OpContext& context) {
  const Node& node = context.node();
  const Tensor& x = context.Input(0);
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  if (IsInteger(x.dtype())) {
    std::vector<int64_t> imputed = node.Ints("imputed_value_int64s");
    Require(!imputed.empty(), "an integer input needs the attribute 'imputed_value_int64s'");
    if (x.dtype() == DType::kInt32)
      for (int64_t value : imputed)
        Require(value == static_cast<int32_t>(value), "imputed value ", value, " does not fit in int32");
    int64_t replaced = node.Int("replaced_value_int64", 0);
    Dispatch(IndexTypes{}, x.dtype(),
             [&](auto tag) { Impute<typename decltype(tag)::type, int64_t>(x, y, imputed, replaced); });
  } else {
    std::vector<float> imputed = node.Floats("imputed_value_floats");
    Require(!imputed.empty(), "a floating-point input needs the attribute 'imputed_value_floats'");
    float replaced = node.Float("replaced_value_float", 0.0f);
    Dispatch(FloatTypes{}, x.dtype(),
             [&](auto tag) { Impute<typename decltype(tag)::type, float>(x, y, imputed, replaced); });
  }
}

}  // namespace

FERRY_OPERATOR_IN(ml, Imputer, {.compute = ComputeImputer, .infer = InferSameAsInput, .in_place = kInput0});

}  // namespace ferry
