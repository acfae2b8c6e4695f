// A mixture of experts: each token goes through the few networks of two layers that a router chooses, and their answers
// are added up by weight. What MoE and QMoE share.
#pragma once

#include <functional>
#include <vector>

#include "ops/context.h"

namespace ferry {

struct ExpertChoice {
  int64_t expert;
  float weight;
};

struct MixtureOfExperts {
  int64_t tokens = 0, hidden = 0, inner = 0, experts = 0, chosen = 0;
  std::vector<ExpertChoice> routes;  // [tokens, chosen]
  // y = x · layer(expert)ᵀ + bias for `count` rows.
  using Layer = std::function<void(int64_t expert, const float* x, int64_t count, float* y)>;
  Layer first, second;  // hidden → first_width(), inner → hidden

  explicit MixtureOfExperts(const OpContext& context);  // the attributes, and the shapes of inputs 0 and 1
  int64_t first_width() const { return gates_ ? 2 * inner : inner; }
  // The `chosen` experts with the largest logits of each token, largest first.
  std::vector<int64_t> Largest(const float* logits) const;
  void Run(OpContext& context) const;  // input 0 to output 0, both [tokens, hidden]

 private:
  void Add(const OpContext& context, const float* input, float* y) const;
  void Activate(const float* from, float* to) const;

  std::string activation_;
  bool gates_;  // swiglu: every second number is a gate
  float alpha_, beta_, limit_;
};

}  // namespace ferry
