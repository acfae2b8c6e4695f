#include "ops/support/trees.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace ferry {
namespace {

// Follows every path once, without recursion: a tree may be as deep as it is large.
void CheckForCircles(const TreeEnsembleModel& model) {
  enum class State : uint8_t { kNew, kOpen, kDone };
  std::vector<State> states(model.branches.size(), State::kNew);
  struct Visit {
    int32_t branch;
    int next_child;
  };
  std::vector<Visit> path;
  auto enter = [&](int32_t place) {
    if (place < 0 || states[static_cast<size_t>(place)] == State::kDone) return;
    if (states[static_cast<size_t>(place)] == State::kOpen)
      Fail(ErrorCode::kInvalidModel, "a tree runs in a circle: node ", place, " is below itself");
    states[static_cast<size_t>(place)] = State::kOpen;
    path.push_back({place, 0});
  };
  for (int32_t root : model.roots) {
    enter(root);
    while (!path.empty()) {
      Visit& visit = path.back();
      const TreeEnsembleModel::Branch& branch = model.branches[static_cast<size_t>(visit.branch)];
      if (visit.next_child == 2) {
        states[static_cast<size_t>(visit.branch)] = State::kDone;
        path.pop_back();
      } else {
        enter(visit.next_child++ == 0 ? branch.if_true : branch.if_false);
      }
    }
  }
}

}  // namespace

void TreeEnsembleModel::Check() {
  auto check_child = [&](int32_t place) {
    size_t index = static_cast<size_t>(place >= 0 ? place : ~place);
    if (index >= (place >= 0 ? branches.size() : leaves.size()))
      Fail(ErrorCode::kInvalidModel, place >= 0 ? "node " : "leaf ", index, " does not exist");
  };
  for (const Branch& branch : branches) {
    check_child(branch.if_true);
    check_child(branch.if_false);
    if (branch.feature < 0) Fail(ErrorCode::kInvalidModel, "feature ", branch.feature, " does not exist");
    features_needed = std::max(features_needed, branch.feature + 1);
  }
  for (int32_t root : roots) check_child(root);
  for (const Vote& vote : votes)
    if (vote.target < 0 || vote.target >= targets)
      Fail(ErrorCode::kInvalidModel, "a leaf votes for target ", vote.target, " of ", targets);
  CheckForCircles(*this);
}

bool TreeEnsembleModel::Decide(const Branch& branch, double value) const {
  switch (branch.mode) {
    case BranchMode::kLeq: return value <= branch.threshold;
    case BranchMode::kLt: return value < branch.threshold;
    case BranchMode::kGte: return value >= branch.threshold;
    case BranchMode::kGt: return value > branch.threshold;
    case BranchMode::kEq: return value == branch.threshold;
    case BranchMode::kNeq: return value != branch.threshold;
    case BranchMode::kMember: {
      Range set = sets[static_cast<size_t>(branch.set)];
      return std::binary_search(members.begin() + set.begin, members.begin() + set.end, value);
    }
    case BranchMode::kLeaf: break;
  }
  return false;
}

int32_t TreeEnsembleModel::FindLeaf(int32_t root, std::span<const double> x) const {
  int32_t place = root;
  while (place >= 0) {
    const Branch& branch = branches[static_cast<size_t>(place)];
    double value = x[static_cast<size_t>(branch.feature)];
    bool yes = std::isnan(value) ? branch.nan_is_true : Decide(branch, value);
    place = yes ? branch.if_true : branch.if_false;
  }
  return ~place;
}

void TreeEnsembleModel::Evaluate(std::span<const double> x, Aggregate aggregate, std::span<double> scores,
                                 std::span<char> voted) const {
  std::fill(scores.begin(), scores.end(), 0.0);
  std::fill(voted.begin(), voted.end(), 0);
  for (int32_t root : roots) {
    Range range = leaves[static_cast<size_t>(FindLeaf(root, x))];
    for (int32_t v = range.begin; v < range.end; ++v) {
      const Vote& vote = votes[static_cast<size_t>(v)];
      double& score = scores[static_cast<size_t>(vote.target)];
      char& seen = voted[static_cast<size_t>(vote.target)];
      if (aggregate == Aggregate::kMin)
        score = seen ? std::min(score, vote.weight) : vote.weight;
      else if (aggregate == Aggregate::kMax)
        score = seen ? std::max(score, vote.weight) : vote.weight;
      else
        score += vote.weight;
      seen = 1;
    }
  }
  if (aggregate == Aggregate::kAverage && !roots.empty())
    for (double& score : scores) score /= static_cast<double>(roots.size());
}

void EvaluateRows(const OpContext& context, const TreeEnsembleModel& model, const FeatureRows& x, Aggregate aggregate,
                  FunctionRef<void(int64_t, std::span<double>, std::span<const char>)> finish) {
  Require(x.features >= model.features_needed, "the trees look at feature ", model.features_needed - 1,
          ", the input has ", x.features, " features");
  // About how many branches make a piece of work worth handing to another thread.
  int64_t grain = std::max<int64_t>(1, 4096 / (1 + 8 * static_cast<int64_t>(model.roots.size())));
  context.ParallelFor(x.rows, grain, [&](int64_t begin, int64_t end) {
    std::vector<double> scores(static_cast<size_t>(model.targets));
    std::vector<char> voted(scores.size());
    for (int64_t n = begin; n < end; ++n) {
      model.Evaluate(x.Row(n), aggregate, scores, voted);
      finish(n, scores, voted);
    }
  });
}

}  // namespace ferry
