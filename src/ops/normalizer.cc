#include <algorithm>
#include <cmath>

#include "ops/operator.h"
#include "ops/support/ml.h"

namespace ferry {
namespace {

double Divisor(std::span<const double> row, const std::string& norm) {
  double sum = 0;
  if (norm == "MAX") return row.empty() ? 0 : *std::max_element(row.begin(), row.end());
  if (norm == "L1") {
    for (double v : row) sum += std::abs(v);
    return sum;
  }
  if (norm == "L2") {
    for (double v : row) sum += v * v;
    return std::sqrt(sum);
  }
  Fail(ErrorCode::kInvalidModel, "attribute 'norm' must be MAX, L1 or L2, is '", Printable(norm), "'");
}

void ComputeNormalizer(OpContext& context) {
  const Tensor& x = context.Input(0);
  FeatureRows rows = ReadFeatureRows(x);
  std::string norm = context.node().String("norm", "MAX");
  float* to = context.Output(0, DType::kFloat, x.shape()).MutableData<float>();
  for (int64_t n = 0; n < rows.rows; ++n) {
    double divisor = Divisor(rows.Row(n), norm);
    for (double value : rows.Row(n)) *to++ = static_cast<float>(divisor == 0 ? value : value / divisor);
  }
}

void InferNormalizer(InferContext& context) {
  const SymbolicShape* shape = context.InputShape(0);
  InferRows(context);  // refuses other ranks
  context.SetOutput(0, shape ? Type::Tensor(DType::kFloat, *shape) : Type::Tensor(DType::kFloat));
}

}  // namespace

FERRY_OPERATOR_IN(ml, Normalizer, {.compute = ComputeNormalizer, .infer = InferNormalizer});

}  // namespace ferry
