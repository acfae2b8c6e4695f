// The most likely token at a time, until every sequence has ended or max_length is reached.
#include <algorithm>

#include "ops/operator.h"
#include "ops/support/token_search.h"

namespace ferry {
namespace {

void ComputeGreedySearch(OpContext& context) {
  TokenSearch search(
      context, {.min_length = 2, .repetition_penalty = 3, .vocab_mask = 4, .prefix_vocab_mask = 5, .attention_mask = 6},
      1);
  std::vector<bool> ended(static_cast<size_t>(search.batch));
  for (int64_t step = 0; !search.IsFull(); ++step) {
    std::vector<float> scores = search.NextLogits({});
    search.Adjust(scores, step);
    for (size_t b = 0; b < search.sequences.size(); ++b) {
      auto row = scores.begin() + static_cast<int64_t>(b) * search.words;
      int64_t token = std::max_element(row, row + search.words) - row;
      if (token == search.eos) ended[b] = true;
      search.sequences[b].push_back(static_cast<int32_t>(ended[b] ? search.pad : token));
    }
    if (std::all_of(ended.begin(), ended.end(), [](bool is_over) { return is_over; })) break;
  }
  search.WriteSequences();
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, GreedySearch,
                  {.compute = ComputeGreedySearch, .infer = InferTokenSearch, .has_subgraphs = true});

}  // namespace ferry
