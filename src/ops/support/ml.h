// What the classical machine-learning operators share: rows of features, class labels, transforms of scores.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/model.h"
#include "ops/context.h"
#include "ops/infer_context.h"

namespace ferry {

// A batch of feature rows in double, which holds every float, double and int32 exactly.
struct FeatureRows {
  int64_t rows = 0;
  int64_t features = 0;
  std::vector<double> values;

  std::span<const double> Row(int64_t n) const { return {values.data() + n * features, static_cast<size_t>(features)}; }
};

// The elements of a float, double, float16, int32 or int64 tensor.
std::vector<double> AsDoubles(const Tensor& tensor);
// [N, C] as it is, [C] as one row; any other rank is refused.
FeatureRows ReadFeatureRows(const Tensor& x);
// The same for types: the number of rows of input 0, the number of features of input 0 (unknown where not known).
Dim InferRows(const InferContext& context);
Dim InferFeatures(const InferContext& context);

// Numbered as TreeEnsemble's attribute.
enum class PostTransform : uint8_t { kNone = 0, kSoftmax = 1, kLogistic = 2, kSoftmaxZero = 3, kProbit = 4 };
PostTransform ReadPostTransform(const Node& node);
void ApplyPostTransform(PostTransform transform, std::span<double> scores);
double Logistic(double value);
// The same, and which class wins: the one with the largest score. Where zero means "no vote", such a class cannot win.
size_t TransformAndPick(PostTransform transform, std::span<double> scores);

// The classes of a classifier: integers or strings, whichever of the two attributes is given.
struct ClassLabels {
  std::vector<int64_t> ints;
  std::vector<std::string> strings;

  size_t size() const { return strings.empty() ? ints.size() : strings.size(); }
  DType dtype() const { return strings.empty() ? DType::kInt64 : DType::kString; }
  // Writes the label of class `index` into labels[row].
  void Write(Tensor& labels, int64_t row, size_t index) const;
};
ClassLabels ReadClassLabels(const Node& node, std::string_view ints_name, std::string_view strings_name);

// A score per class: outputs 0 (labels, [rows]) and 1 (scores, float [rows, columns]) of a classifier.
void InferClassifier(InferContext& context, DType label_type, Dim columns);
// Narrows [rows, columns] doubles into output `index` of type float.
void WriteScores(OpContext& context, size_t index, int64_t rows, int64_t columns, std::span<const double> scores);

size_t IndexOfLargest(std::span<const double> values);  // the first of equals

}  // namespace ferry
