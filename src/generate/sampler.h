// Which token comes next, given the model's scores for all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/token_model.h"

namespace ferry {

struct SamplingOptions {
  double temperature = 0;         // 0: always the best token
  int64_t top_k = 0;              // only among so many best; 0: all
  double top_p = 1;               // only among the best that together have this share
  double min_p = 0;               // only those with at least this share of the best one's
  double repetition_penalty = 1;  // above 1: tokens that were there before are less likely
  uint64_t seed = 0;
};

class Sampler {
 public:
  // Throws kInvalidArgument for options that cannot be.
  explicit Sampler(const SamplingOptions& options);

  // `scores` are changed. `before`: the prompt and what was made of it. The same seed gives the same tokens.
  TokenId Pick(std::span<float> scores, std::span<const TokenId> before);

 private:
  struct Choice {
    double score;
    TokenId id;
  };
  void Penalize(std::span<float> scores, std::span<const TokenId> before);
  std::vector<Choice> BestOf(std::span<const float> scores) const;
  double NextRandom();  // in [0, 1)

  SamplingOptions options_;
  uint64_t state_;
  std::vector<bool> is_penalized_;
};

}  // namespace ferry
