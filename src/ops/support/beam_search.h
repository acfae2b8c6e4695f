// What BeamSearch and WhisperBeamSearch share.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/support/token_search.h"

namespace ferry {

// What a model has to say about scores beside what all searches do. Rows are [batch · beams, words].
class ScoreRules {
 public:
  virtual ~ScoreRules() = default;
  virtual void See(const TokenSearch&, const std::vector<float>& /*log_probabilities*/, int64_t /*step*/) {}
  virtual void Change(const TokenSearch&, std::vector<float>& /*scores*/) const {}
};

// Inputs 0 to 11 and outputs 0 to 2. `model`: its type where the node does not say.
void RunBeamSearch(OpContext& context, ScoreRules& rules, int64_t model);

}  // namespace ferry
