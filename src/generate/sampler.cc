#include "generate/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ferry {

Sampler::Sampler(const SamplingOptions& options) : options_(options), state_(options.seed) {
  Require(options.temperature >= 0 && std::isfinite(options.temperature), "temperature must be 0 or more, is ",
          options.temperature);
  Require(options.top_k >= 0, "top-k must be 0 or more, is ", options.top_k);
  Require(options.top_p > 0 && options.top_p <= 1, "top-p must be above 0 and at most 1, is ", options.top_p);
  Require(options.min_p >= 0 && options.min_p <= 1, "min-p must be 0 to 1, is ", options.min_p);
  Require(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty),
          "repetition-penalty must be above 0, is ", options.repetition_penalty);
}

void Sampler::Penalize(std::span<float> scores, std::span<const TokenId> before) {
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  if (penalty == 1) return;
  is_penalized_.assign(scores.size(), false);
  for (TokenId id : before) {
    if (id < 0 || static_cast<size_t>(id) >= scores.size() || is_penalized_[static_cast<size_t>(id)]) continue;
    is_penalized_[static_cast<size_t>(id)] = true;
    float& score = scores[static_cast<size_t>(id)];
    score = score < 0 ? score * penalty : score / penalty;
  }
}

// Those that top-k leaves, from the best on; of equal ones the lower number first, so that machines agree.
std::vector<Sampler::Choice> Sampler::BestOf(std::span<const float> scores) const {
  std::vector<Choice> choices;
  choices.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i)
    if (!std::isnan(scores[i]) && scores[i] != -INFINITY)
      choices.push_back({static_cast<double>(scores[i]), static_cast<TokenId>(i)});
  auto better = [](const Choice& a, const Choice& b) { return a.score != b.score ? a.score > b.score : a.id < b.id; };
  const bool cuts = options_.top_k > 0 && static_cast<size_t>(options_.top_k) < choices.size();
  if (cuts) {
    const auto end = choices.begin() + static_cast<std::ptrdiff_t>(options_.top_k);
    std::nth_element(choices.begin(), end, choices.end(), better);
    choices.erase(end, choices.end());
  }
  std::sort(choices.begin(), choices.end(), better);
  return choices;
}

// SplitMix64.
double Sampler::NextRandom() {
  uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

TokenId Sampler::Pick(std::span<float> scores, std::span<const TokenId> before) {
  Penalize(scores, before);
  if (options_.temperature == 0) {
    size_t best = 0;
    for (size_t i = 1; i < scores.size(); ++i)
      if (scores[i] > scores[best] || std::isnan(scores[best])) best = i;
    Require(!scores.empty() && !std::isnan(scores[best]), "the model gave no scores but NaN");
    return static_cast<TokenId>(best);
  }
  std::vector<Choice> choices = BestOf(scores);
  Require(!choices.empty(), "the model gave no scores but NaN and minus infinity");
  const double best = choices[0].score;
  double total = 0;
  for (Choice& choice : choices) {
    choice.score = best == choice.score ? 1 : std::exp((choice.score - best) / options_.temperature);
    total += choice.score;
  }
  size_t kept = 0;
  double share = 0;
  while (kept < choices.size() &&
         (kept == 0 || (share < options_.top_p * total && choices[kept].score >= options_.min_p)))
    share += choices[kept++].score;
  double at = NextRandom() * share;
  for (size_t i = 0; i + 1 < kept; ++i) {
    if (at < choices[i].score) return choices[i].id;
    at -= choices[i].score;
  }
  return choices[kept - 1].id;
}

}  // namespace ferry
