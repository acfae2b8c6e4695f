#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "ops/support/trees.h"

namespace ferry {
namespace {

using NodeId = std::pair<int64_t, int64_t>;  // tree, node

BranchMode ParseMode(const std::string& name) {
  static constexpr const char* kNames[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                           "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i] && i != static_cast<size_t>(BranchMode::kMember)) return static_cast<BranchMode>(i);
  Fail(ErrorCode::kInvalidModel, "attribute 'nodes_modes' holds '", Printable(name), "', which is no mode");
}

struct Columns {
  explicit Columns(const Node& node)
      : trees(node.Ints("nodes_treeids")),
        ids(node.Ints("nodes_nodeids")),
        features(node.Ints("nodes_featureids")),
        if_true(node.Ints("nodes_truenodeids")),
        if_false(node.Ints("nodes_falsenodeids")),
        missing(node.Ints("nodes_missing_value_tracks_true")),
        modes(node.Strings("nodes_modes")),
        values(ReadFloatsOrTensor(node, "nodes_values")) {
    size_t n = trees.size();
    auto check = [&](size_t size, const char* name) {
      if (size != n) Fail(ErrorCode::kInvalidModel, "attribute '", name, "' has ", size, " entries for ", n, " nodes");
    };
    check(ids.size(), "nodes_nodeids");
    check(features.size(), "nodes_featureids");
    check(if_true.size(), "nodes_truenodeids");
    check(if_false.size(), "nodes_falsenodeids");
    check(modes.size(), "nodes_modes");
    check(values.size(), "nodes_values");
    if (!missing.empty()) check(missing.size(), "nodes_missing_value_tracks_true");
    if (n > (size_t{1} << 30)) Fail(ErrorCode::kLimit, n, " tree nodes are too many");
  }

  std::vector<int64_t> trees, ids, features, if_true, if_false, missing;
  std::vector<std::string> modes;
  std::vector<double> values;
};

// Turns the place of every node into a branch's place or a leaf's complement.
std::map<NodeId, int32_t> PlaceNodes(const Columns& columns, TreeEnsembleModel& model) {
  std::map<NodeId, int32_t> places;
  std::unordered_map<int64_t, int32_t> root_of;
  std::vector<int64_t> order;
  int32_t branches = 0, leaves = 0;
  for (size_t i = 0; i < columns.trees.size(); ++i) {
    int32_t place = ParseMode(columns.modes[i]) == BranchMode::kLeaf ? ~leaves++ : branches++;
    if (!places.emplace(NodeId{columns.trees[i], columns.ids[i]}, place).second)
      Fail(ErrorCode::kInvalidModel, "node ", columns.ids[i], " of tree ", columns.trees[i], " is there twice");
    // The first node of a tree is its root.
    if (root_of.emplace(columns.trees[i], place).second) order.push_back(columns.trees[i]);
  }
  for (int64_t tree : order) model.roots.push_back(root_of[tree]);
  model.branches.resize(static_cast<size_t>(branches));
  model.leaves.resize(static_cast<size_t>(leaves));
  return places;
}

void FillBranches(const Columns& columns, const std::map<NodeId, int32_t>& places, TreeEnsembleModel& model) {
  for (size_t i = 0; i < columns.trees.size(); ++i) {
    int32_t place = places.at({columns.trees[i], columns.ids[i]});
    if (place < 0) continue;
    auto child = [&](int64_t id) {
      auto it = places.find({columns.trees[i], id});
      if (it == places.end())
        Fail(ErrorCode::kInvalidModel, "node ", columns.ids[i], " of tree ", columns.trees[i], " leads to node ", id,
             ", which does not exist");
      return it->second;
    };
    int64_t feature = columns.features[i];
    if (feature < 0 || feature > (int64_t{1} << 30))
      Fail(ErrorCode::kInvalidModel, "feature ", feature, " is not possible");
    TreeEnsembleModel::Branch& branch = model.branches[static_cast<size_t>(place)];
    branch.threshold = columns.values[i];
    branch.feature = static_cast<int32_t>(feature);
    branch.mode = ParseMode(columns.modes[i]);
    branch.nan_is_true = !columns.missing.empty() && columns.missing[i] != 0;
    branch.if_true = child(columns.if_true[i]);
    branch.if_false = child(columns.if_false[i]);
  }
}

void FillVotes(const Node& node, const std::string& prefix, const std::map<NodeId, int32_t>& places,
               TreeEnsembleModel& model) {
  std::vector<int64_t> trees = node.Ints(prefix + "_treeids"), ids = node.Ints(prefix + "_nodeids"),
                       targets = node.Ints(prefix + "_ids");
  std::vector<double> weights = ReadFloatsOrTensor(node, prefix + "_weights");
  if (trees.size() != ids.size() || trees.size() != targets.size() || trees.size() != weights.size())
    Fail(ErrorCode::kInvalidModel, "the attributes '", prefix, "_*' have different lengths: ", trees.size(), ", ",
         ids.size(), ", ", targets.size(), ", ", weights.size());
  std::vector<std::pair<int32_t, size_t>> by_leaf;  // leaf, vote
  for (size_t v = 0; v < trees.size(); ++v) {
    auto it = places.find({trees[v], ids[v]});
    if (it == places.end())
      Fail(ErrorCode::kInvalidModel, "a vote names node ", ids[v], " of tree ", trees[v], ", which does not exist");
    if (targets[v] < 0 || targets[v] >= model.targets)
      Fail(ErrorCode::kInvalidModel, "a leaf votes for target ", targets[v], " of ", model.targets);
    if (it->second < 0) by_leaf.emplace_back(~it->second, v);  // a vote at a branch is never reached
  }
  std::sort(by_leaf.begin(), by_leaf.end());
  for (auto [leaf, v] : by_leaf) {
    TreeEnsembleModel::Range& range = model.leaves[static_cast<size_t>(leaf)];
    auto place = static_cast<int32_t>(model.votes.size());
    if (range.begin == range.end) range.begin = place;
    range.end = place + 1;
    model.votes.push_back({static_cast<int32_t>(targets[v]), weights[v]});
  }
}

}  // namespace

std::vector<double> ReadFloatsOrTensor(const Node& node, const std::string& name) {
  std::string tensor_name = name + "_as_tensor";
  if (node.Has(tensor_name)) return AsDoubles(node.TensorAttribute(tensor_name));
  std::vector<float> floats = node.Floats(name);
  return {floats.begin(), floats.end()};
}

TreeEnsembleModel ReadLegacyTrees(const Node& node, const std::string& votes_prefix, int64_t targets) {
  Columns columns(node);
  if (targets < 0 || targets > kMostTargets) Fail(ErrorCode::kInvalidModel, targets, " targets are not possible");
  TreeEnsembleModel model;
  model.targets = static_cast<int32_t>(targets);
  std::map<NodeId, int32_t> places = PlaceNodes(columns, model);
  FillBranches(columns, places, model);
  FillVotes(node, votes_prefix, places, model);
  model.Check();
  return model;
}

}  // namespace ferry
