#include "ops/operator.h"
#include "ops/support/ml.h"

namespace ferry {

static void ComputeZipMap(OpContext& context) {
  const Tensor& x = context.Input(0);
  ClassLabels labels = ReadClassLabels(context.node(), "classlabels_int64s", "classlabels_strings");
  Require(x.rank() == 1 || x.rank() == 2, "the input must be of shape [N, C] or [C], is ", x.shape());
  int64_t rows = x.rank() == 2 ? x.dim(0) : 1, columns = x.shape().back();
  Require(columns == static_cast<int64_t>(labels.size()), "there are ", columns, " columns for ", labels.size(),
          " keys");
  Tensor keys = labels.strings.empty() ? Tensor::FromVector(labels.ints) : Tensor::FromVector(labels.strings);
  Tensor values = x.Reshaped({rows, columns}).Persistent();
  Sequence maps;
  for (int64_t row = 0; row < rows; ++row) maps.elements.push_back(Map{keys, values.Rows(row, 1).Reshaped({columns})});
  values.Data<float>();  // refuses any other type
  context.SetOutput(0, std::move(maps));
}

static void InferZipMap(InferContext& context) {
  DType key = ReadClassLabels(context.node(), "classlabels_int64s", "classlabels_strings").dtype();
  context.SetOutput(0, Type::SequenceOf(Type::MapOf(key, Type::Tensor(DType::kFloat, {}))));
}

FERRY_OPERATOR_IN(ml, ZipMap, {.compute = ComputeZipMap, .infer = InferZipMap});

}  // namespace ferry
