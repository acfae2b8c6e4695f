// Decision trees as the three tree-ensemble operators run them: one flat array of branches, checked once so that
// walking it needs no further care.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/model.h"
#include "ops/context.h"
#include "ops/support/ml.h"

namespace ferry {

// Numbered as TreeEnsemble's attribute 'nodes_modes'; kLeaf is of the older operators.
enum class BranchMode : uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember, kLeaf };
// Numbered as TreeEnsemble's attribute 'aggregate_function'.
enum class Aggregate : uint8_t { kAverage = 0, kSum = 1, kMin = 2, kMax = 3 };

inline constexpr int64_t kMostTargets = int64_t{1} << 24;

struct TreeEnsembleModel {
  struct Branch {
    double threshold = 0;
    int32_t feature = 0;
    BranchMode mode = BranchMode::kLeq;
    bool nan_is_true = false;
    // A branch's place, or for a leaf the bitwise complement of the leaf's place.
    int32_t if_true = 0, if_false = 0;
    int32_t set = -1;  // of kMember
  };
  struct Vote {
    int32_t target = 0;
    double weight = 0;
  };
  struct Range {
    int32_t begin = 0, end = 0;
  };

  std::vector<Branch> branches;
  std::vector<Range> leaves;  // votes of each leaf
  std::vector<Vote> votes;
  std::vector<int32_t> roots;  // a branch, or the complement of a leaf
  std::vector<Range> sets;     // members of each set, sorted
  std::vector<double> members;
  int32_t targets = 0;
  int32_t features_needed = 0;  // one more than the largest feature any branch looks at

  // Throws unless every child and feature exists and no path runs in a circle; called once after filling.
  void Check();

  // Adds up all trees for one row. `voted` says which targets got a vote at all.
  void Evaluate(std::span<const double> x, Aggregate aggregate, std::span<double> scores, std::span<char> voted) const;

 private:
  bool Decide(const Branch& branch, double value) const;
  int32_t FindLeaf(int32_t root, std::span<const double> x) const;
};

// The form of TreeEnsemble.
TreeEnsembleModel ReadTreeEnsemble(const Node& node);
// The form of TreeEnsembleClassifier and TreeEnsembleRegressor: nodes with ids inside numbered trees, and votes (prefix
// "class" or "target") that name the node they belong to.
TreeEnsembleModel ReadLegacyTrees(const Node& node, const std::string& votes_prefix, int64_t targets);
// A list of floats given as NAME or as the tensor NAME_as_tensor; empty when neither is there.
std::vector<double> ReadFloatsOrTensor(const Node& node, const std::string& name);

// Evaluates all rows: finish(row, scores, voted) turns the sums of a row into what is wanted.
void EvaluateRows(const OpContext& context, const TreeEnsembleModel& model, const FeatureRows& x, Aggregate aggregate,
                  FunctionRef<void(int64_t, std::span<double>, std::span<const char>)> finish);

}  // namespace ferry
