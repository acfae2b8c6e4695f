#include <algorithm>

#include "ops/operator.h"
#include "ops/support/trees.h"

namespace ferry {
namespace {

struct Classifier {
  explicit Classifier(const Node& node)
      : labels(ReadClassLabels(node, "classlabels_int64s", "classlabels_strings")),
        transform(ReadPostTransform(node)),
        base(ReadFloatsOrTensor(node, "base_values")),
        // A single label is the positive class of two.
        trees(ReadLegacyTrees(node, "class", std::max<int64_t>(static_cast<int64_t>(labels.size()), 1))) {
    std::vector<int64_t> ids = node.Ints("class_ids");
    one_sided = labels.size() <= 2 && !ids.empty() &&
                std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
    voted_class = ids.empty() ? 0 : static_cast<size_t>(ids[0]);
    for (double weight : ReadFloatsOrTensor(node, "class_weights")) weights_are_positive &= weight >= 0;
    Require(base.empty() || base.size() == labels.size() || (one_sided && base.size() == 1), "there are ", base.size(),
            " base values for ", labels.size(), " classes");
  }
  size_t columns() const { return one_sided ? 2 : labels.size(); }

  // Scores of all classes from the sums of votes; returns the winner.
  size_t Finish(std::span<const double> sums, std::span<double> scores) const;

  ClassLabels labels;
  PostTransform transform;
  std::vector<double> base;
  TreeEnsembleModel trees;
  bool one_sided = false;  // every vote of a two-class model is for the same class: the other one follows from it
  bool weights_are_positive = true;
  size_t voted_class = 0;
};

size_t Classifier::Finish(std::span<const double> sums, std::span<double> scores) const {
  if (!one_sided) {
    for (size_t c = 0; c < scores.size(); ++c) scores[c] = sums[c] + (base.empty() ? 0.0 : base[c]);
    return TransformAndPick(transform, scores);
  }
  // The one sum speaks for the second class: as a probability when all weights are positive, else as a margin.
  double score = sums[voted_class] + (base.empty() ? 0.0 : base.back());
  bool probability = weights_are_positive && (transform == PostTransform::kNone || transform == PostTransform::kProbit);
  scores[0] = probability ? 1 - score : -score;
  scores[1] = score;
  ApplyPostTransform(transform, scores);
  return score > (probability ? 0.5 : 0.0) ? 1 : 0;
}

void ComputeTreeEnsembleClassifier(OpContext& context) {
  const Node& node = context.node();
  FeatureRows x = ReadFeatureRows(context.Input(0));
  auto classifier = context.Prepared<Classifier>([&] { return Classifier(node); });
  auto columns = static_cast<int64_t>(classifier->columns());
  std::vector<double> all(static_cast<size_t>(CheckedProduct(x.rows, columns)));
  const ClassLabels& labels = classifier->labels;
  Tensor& y = context.Output(0, labels.dtype(), {x.rows});
  EvaluateRows(context, classifier->trees, x, Aggregate::kSum,
               [&](int64_t n, std::span<const double> sums, std::span<const char>) {
                 std::span<double> scores(all.data() + n * columns, static_cast<size_t>(columns));
                 size_t winner = classifier->Finish(sums, scores);
                 if (labels.size() > 1)
                   labels.Write(y, n, winner);
                 else if (winner == 1 || !classifier->one_sided)
                   labels.Write(y, n, 0);
                 else if (labels.strings.empty())
                   y.MutableData<int64_t>()[n] = 0;
                 else
                   y.MutableData<std::string>()[n].clear();
               });
  WriteScores(context, 1, x.rows, columns, all);
}

void InferTreeEnsembleClassifier(InferContext& context) {
  Classifier classifier(context.node());
  InferClassifier(context, classifier.labels.dtype(), static_cast<int64_t>(classifier.columns()));
}

}  // namespace

FERRY_OPERATOR_IN(ml, TreeEnsembleClassifier,
                  {.compute = ComputeTreeEnsembleClassifier, .infer = InferTreeEnsembleClassifier});

}  // namespace ferry
