#include <algorithm>
#include <cmath>

#include "ops/operator.h"
#include "ops/support/trees.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

int64_t CheckedEnum(const Node& node, const char* name, int64_t otherwise, int64_t largest) {
  int64_t value = node.Int(name, otherwise);
  if (value < 0 || value > largest)
    Fail(ErrorCode::kInvalidModel, "attribute '", name, "' must be 0 to ", largest, ", is ", value);
  return value;
}

int32_t ChildPlace(int64_t id, int64_t is_leaf) {
  if (id < 0 || id > (int64_t{1} << 30)) Fail(ErrorCode::kInvalidModel, "child ", id, " does not exist");
  return is_leaf ? ~static_cast<int32_t>(id) : static_cast<int32_t>(id);
}

// The sets of the BRANCH_MEMBER nodes in the order of those nodes, each closed by a NaN.
void FillSets(const Node& node, TreeEnsembleModel& model) {
  std::vector<double> values;
  if (node.Has("membership_values")) values = AsDoubles(node.TensorAttribute("membership_values"));
  size_t next = 0;
  for (TreeEnsembleModel::Branch& branch : model.branches) {
    if (branch.mode != BranchMode::kMember) continue;
    auto begin = static_cast<int32_t>(model.members.size());
    while (next < values.size() && !std::isnan(values[next])) model.members.push_back(values[next++]);
    if (next >= values.size())
      Fail(ErrorCode::kInvalidModel,
           "attribute 'membership_values' ends before the set of the last BRANCH_MEMBER node");
    ++next;
    std::sort(model.members.begin() + begin, model.members.end());
    branch.set = static_cast<int32_t>(model.sets.size());
    model.sets.push_back({begin, static_cast<int32_t>(model.members.size())});
  }
  if (next != values.size())
    Fail(ErrorCode::kInvalidModel, "attribute 'membership_values' has more sets than there are BRANCH_MEMBER nodes");
}

void FillBranches(const Node& node, TreeEnsembleModel& model) {
  std::vector<int64_t> features = node.Ints("nodes_featureids"), if_true = node.Ints("nodes_truenodeids"),
                       if_false = node.Ints("nodes_falsenodeids"), true_leafs = node.Ints("nodes_trueleafs"),
                       false_leafs = node.Ints("nodes_falseleafs"),
                       missing = node.Ints("nodes_missing_value_tracks_true");
  std::vector<double> splits = AsDoubles(node.TensorAttribute("nodes_splits"));
  std::vector<int64_t> modes = ToInt64Vector(node.TensorAttribute("nodes_modes"));
  size_t count = features.size();
  for (size_t size :
       {if_true.size(), if_false.size(), true_leafs.size(), false_leafs.size(), splits.size(), modes.size()})
    if (size != count)
      Fail(ErrorCode::kInvalidModel, "the attributes 'nodes_*' have different lengths: ", count, " and ", size);
  if (!missing.empty() && missing.size() != count)
    Fail(ErrorCode::kInvalidModel, "attribute 'nodes_missing_value_tracks_true' has ", missing.size(), " entries for ",
         count, " nodes");
  model.branches.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (modes[i] < 0 || modes[i] > static_cast<int64_t>(BranchMode::kMember))
      Fail(ErrorCode::kInvalidModel, "attribute 'nodes_modes' holds ", modes[i], ", which is no mode");
    if (features[i] < 0 || features[i] > (int64_t{1} << 30))
      Fail(ErrorCode::kInvalidModel, "feature ", features[i], " is not possible");
    model.branches[i] = {.threshold = splits[i],
                         .feature = static_cast<int32_t>(features[i]),
                         .mode = static_cast<BranchMode>(modes[i]),
                         .nan_is_true = !missing.empty() && missing[i] != 0,
                         .if_true = ChildPlace(if_true[i], true_leafs[i]),
                         .if_false = ChildPlace(if_false[i], false_leafs[i])};
  }
}

int64_t TargetCount(const Node& node) {
  int64_t targets = node.Int("n_targets", 1);
  if (targets < 1 || targets > kMostTargets)
    Fail(ErrorCode::kInvalidModel, "attribute 'n_targets' must be 1 to ", kMostTargets, ", is ", targets);
  return targets;
}

}  // namespace

TreeEnsembleModel ReadTreeEnsemble(const Node& node) {
  TreeEnsembleModel model;
  model.targets = static_cast<int32_t>(TargetCount(node));
  FillBranches(node, model);
  FillSets(node, model);
  std::vector<int64_t> targets = node.Ints("leaf_targetids");
  std::vector<double> weights = AsDoubles(node.TensorAttribute("leaf_weights"));
  if (targets.size() != weights.size())
    Fail(ErrorCode::kInvalidModel, "there are ", targets.size(), " leaf targets and ", weights.size(), " leaf weights");
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= model.targets)
      Fail(ErrorCode::kInvalidModel, "leaf ", i, " is of target ", targets[i], "; there are ", model.targets);
    model.leaves.push_back({static_cast<int32_t>(i), static_cast<int32_t>(i + 1)});
    model.votes.push_back({static_cast<int32_t>(targets[i]), weights[i]});
  }
  for (int64_t root : node.Ints("tree_roots")) model.roots.push_back(ChildPlace(root, 0));
  model.Check();
  return model;
}

namespace {

void ComputeTreeEnsemble(OpContext& context) {
  const Node& node = context.node();
  const Tensor& input = context.Input(0);
  Require(input.rank() == 2, "the input must be of shape [N, F], is ", input.shape());
  FeatureRows x = ReadFeatureRows(input);
  auto transform = static_cast<PostTransform>(CheckedEnum(node, "post_transform", 0, 4));
  auto aggregate = static_cast<Aggregate>(CheckedEnum(node, "aggregate_function", 1, 3));
  auto model = context.Prepared<TreeEnsembleModel>([&] { return ReadTreeEnsemble(node); });
  int64_t targets = model->targets;
  Tensor& y = context.Output(0, input.dtype(), {x.rows, targets});
  bool is_double = y.dtype() == DType::kDouble;
  Tensor wide = y.dtype() == DType::kFloat16 ? Tensor(DType::kFloat, y.shape()) : y;
  EvaluateRows(context, *model, x, aggregate, [&](int64_t n, std::span<double> scores, std::span<const char>) {
    ApplyPostTransform(transform, scores);
    Tensor out = wide;
    for (size_t t = 0; t < scores.size(); ++t) {
      int64_t place = n * targets + static_cast<int64_t>(t);
      if (is_double)
        out.MutableData<double>()[place] = scores[t];
      else
        out.MutableData<float>()[place] = static_cast<float>(scores[t]);
    }
  });
  NarrowInto(wide, y);
}

void InferTreeEnsemble(InferContext& context) {
  context.SetOutput(0, context.InputDType(0), {InferRows(context), TargetCount(context.node())});
}

}  // namespace

FERRY_OPERATOR_IN(ml, TreeEnsemble, {.compute = ComputeTreeEnsemble, .infer = InferTreeEnsemble});

}  // namespace ferry
