#include "ops/operator.h"
#include "ops/support/ml.h"

namespace ferry {
namespace {

struct PerFeature {
  PerFeature(const Node& node, std::string_view name, float otherwise, int64_t features) : values(node.Floats(name)) {
    if (values.empty()) values = {otherwise};
    Require(values.size() == 1 || static_cast<int64_t>(values.size()) == features, "attribute '", name, "' has ",
            values.size(), " values for ", features, " features; give 1 or one for each");
  }
  double operator[](int64_t feature) const { return values[values.size() == 1 ? 0 : static_cast<size_t>(feature)]; }
  std::vector<float> values;
};

void ComputeScaler(OpContext& context) {
  const Tensor& x = context.Input(0);
  int64_t features = x.rank() == 0 ? 1 : x.shape().back();
  PerFeature offset(context.node(), "offset", 0.0f, features), scale(context.node(), "scale", 1.0f, features);
  std::vector<double> values = AsDoubles(x);
  float* to = context.Output(0, DType::kFloat, x.shape()).MutableData<float>();
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t feature = i % features;
    to[i] = static_cast<float>((values[static_cast<size_t>(i)] - offset[feature]) * scale[feature]);
  }
}

void InferScaler(InferContext& context) {
  Type type = context.InputType(0);
  type.kind = Type::Kind::kTensor;
  type.dtype = DType::kFloat;
  context.SetOutput(0, std::move(type));
}

}  // namespace

FERRY_OPERATOR_IN(ml, Scaler, {.compute = ComputeScaler, .infer = InferScaler});

}  // namespace ferry
