#include "ops/operator.h"
#include "ops/support/ml.h"

namespace ferry {
namespace {

// How many columns each input gives; without the attribute, all it has.
std::vector<int64_t> ReadColumns(const Node& node, size_t inputs) {
  std::vector<int64_t> columns = node.Ints("inputdimensions");
  Require(columns.empty() || columns.size() == inputs, "attribute 'inputdimensions' has ", columns.size(),
          " sizes for ", inputs, " inputs");
  for (int64_t size : columns) Require(size >= 0, "attribute 'inputdimensions' holds the size ", size);
  return columns;
}

void ComputeFeatureVectorizer(OpContext& context) {
  std::vector<int64_t> columns = ReadColumns(context.node(), context.input_count());
  std::vector<FeatureRows> inputs;
  int64_t total = 0;
  for (size_t i = 0; i < context.input_count(); ++i) {
    inputs.push_back(ReadFeatureRows(context.Input(i)));
    Require(inputs[i].rows == inputs[0].rows, "input ", i, " has ", inputs[i].rows, " rows where input 0 has ",
            inputs[0].rows);
    if (columns.size() <= i) columns.push_back(inputs[i].features);
    total += columns[i];
    Require(total >= 0 && total < (int64_t{1} << 40), "attribute 'inputdimensions' sums up to too much");
  }
  Require(!inputs.empty(), "there is no input");
  Tensor& y = context.Output(0, DType::kFloat, {inputs[0].rows, total});
  float* to = y.MutableData<float>();
  for (int64_t row = 0; row < inputs[0].rows; ++row) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::span<const double> values = inputs[i].Row(row);
      for (int64_t c = 0; c < columns[i]; ++c)
        *to++ = c < inputs[i].features ? static_cast<float>(values[static_cast<size_t>(c)]) : 0.0f;
    }
  }
}

void InferFeatureVectorizer(InferContext& context) {
  std::vector<int64_t> columns = ReadColumns(context.node(), context.input_count());
  Dim rows, total(0);
  for (size_t i = 0; i < context.input_count(); ++i) {
    const SymbolicShape* shape = context.InputShape(i);
    if (shape && rows.unknown()) rows = shape->size() == 2 ? shape->front() : Dim(1);
    total = total + (i < columns.size() ? Dim(columns[i]) : shape && !shape->empty() ? shape->back() : Dim());
  }
  context.SetOutput(0, DType::kFloat, {rows, total});
}

}  // namespace

FERRY_OPERATOR_IN(ml, FeatureVectorizer, {.compute = ComputeFeatureVectorizer, .infer = InferFeatureVectorizer});

}  // namespace ferry
