// A token at a time, drawn from those that together have the probability top_p. Unlike ONNX Runtime's, draws from a
// seed are the same on every machine (ops/support/random.h).
#include <algorithm>
#include <numeric>

#include "ops/operator.h"
#include "ops/support/random.h"
#include "ops/support/softmax_line.h"
#include "ops/support/token_search.h"

namespace ferry {
namespace {

struct SamplingRules {
  float top_p, filtered, temperature, presence_penalty;
  int64_t least;
  bool is_custom;
  std::vector<int32_t> presence;

  SamplingRules(const OpContext& context, const TokenSearch& search)
      : top_p(context.node().Float("top_p", 0)),
        filtered(context.node().Float("filter_value", -1e20f)),
        temperature(context.node().Float("temperature", 1)),
        presence_penalty(context.node().Float("presence_penalty", 0)),
        least(context.node().Int("min_tokens_to_keep", 0)),
        is_custom(context.node().Int("custom", 0) != 0) {
    if (const Tensor* mask = context.OptionalInput(7)) {
      Require(mask->dtype() == DType::kInt32 && mask->size() % search.batch == 0, "presence_mask must be int32, is ",
              mask->dtype(), mask->shape());
      presence.assign(mask->Span<int32_t>().begin(), mask->Span<int32_t>().end());
    }
  }

  // The tail beyond top_p gets the filter's value, by probability from the least likely on (or, custom, from the most).
  void Filter(float* row, int64_t words) const {
    std::vector<int64_t> order(static_cast<size_t>(words));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return is_custom ? row[a] > row[b] : row[a] < row[b]; });
    std::vector<float> sorted, part(order.size());
    for (int64_t i : order) sorted.push_back(row[i]);
    SoftmaxLine(sorted.data(), part.data(), words);
    float sum = 0;
    for (int64_t j = 0; j < words; ++j) {
      sum += part[static_cast<size_t>(j)];
      if (is_custom ? j + 1 < words && sum > top_p : (j == 0 || j < words - least) && sum <= 1 - top_p)
        row[order[static_cast<size_t>(is_custom ? j + 1 : j)]] = filtered;
    }
  }
};

int64_t Draw(const float* row, int64_t words, RandomState& random) {
  std::vector<float> part(static_cast<size_t>(words));
  SoftmaxLine(row, part.data(), words);
  double place = random.Uniform(), sum = 0;
  for (int64_t i = 0; i < words; ++i) {
    sum += static_cast<double>(part[static_cast<size_t>(i)]);
    if (place < sum) return i;
  }
  return std::max_element(row, row + words) - row;
}

void ComputeSampling(OpContext& context) {
  TokenSearch search(
      context, {.min_length = 2, .repetition_penalty = 3, .vocab_mask = 4, .prefix_vocab_mask = 5, .attention_mask = 6},
      1);
  SamplingRules rules(context, search);
  RandomState random = context.Has(8) ? RandomState(static_cast<uint32_t>(IntInput(context, 8, "seed", 0)))
                                      : RandomStateFor(context.node());
  std::vector<bool> ended(static_cast<size_t>(search.batch));
  std::vector<float> scores;
  for (int64_t step = 0; !search.IsFull(); ++step) {
    scores = search.NextLogits({});
    search.Adjust(scores, step);
    Require(rules.least >= 0 && rules.least < search.words, "min_tokens_to_keep must be below ", search.words, ", is ",
            rules.least);
    if (rules.temperature > 0)
      for (float& score : scores) score /= rules.temperature;
    // As ONNX Runtime has it, all presences are counted against the first word.
    for (int32_t present : rules.presence) scores[0] -= static_cast<float>(present) * rules.presence_penalty;
    for (size_t b = 0; b < search.sequences.size(); ++b) {
      float* row = scores.data() + static_cast<int64_t>(b) * search.words;
      rules.Filter(row, search.words);
      int64_t token = Draw(row, search.words, random);
      if (token == search.eos) ended[b] = true;
      search.sequences[b].push_back(static_cast<int32_t>(ended[b] ? search.pad : token));
    }
    if (std::all_of(ended.begin(), ended.end(), [](bool is_over) { return is_over; })) break;
  }
  search.WriteSequences();
  if (context.Wants(1))
    std::copy(scores.begin(), scores.end(),
              context.Output(1, DType::kFloat, Shape{search.batch, search.words}).MutableData<float>());
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, Sampling,
                  {.compute = ComputeSampling, .infer = InferTokenSearch, .is_random = true, .has_subgraphs = true});

}  // namespace ferry
