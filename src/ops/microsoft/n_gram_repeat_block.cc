// Forbids every token that would repeat a run of ngram_size tokens: its score becomes −∞.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/operator.h"

namespace ferry {
namespace {

void ComputeNGramRepeatBlock(OpContext& context) {
  const Tensor &ids = context.Input(0), &scores = context.Input(1);
  int64_t size = context.node().Int("ngram_size", 0);
  Require(size > 0, "ngram_size must be positive, is ", size);
  Require(ids.rank() == 2 && scores.rank() == 2 && ids.dim(0) == scores.dim(0) && scores.dtype() == DType::kFloat,
          "input_ids ", ids.shape(), " and scores ", scores.shape(), " must be matrices with as many rows");
  Tensor& y = context.Output(0, DType::kFloat, scores.shape());
  if (y.raw() != scores.raw() && scores.bytes() > 0) std::memcpy(y.mutable_raw(), scores.raw(), scores.bytes());
  int64_t length = ids.dim(1), words = scores.dim(1);
  for (int64_t row = 0; row < ids.dim(0); ++row) {
    const int64_t* line = ids.Data<int64_t>() + row * length;
    for (int64_t i = 0; i + size <= length; ++i) {
      if (!std::equal(line + i, line + i + size - 1, line + length + 1 - size)) continue;
      int64_t word = line[i + size - 1];
      Require(word >= 0 && word < words, "token ", word, " has no score, there are ", words);
      y.MutableData<float>()[row * words + word] = -HUGE_VALF;
    }
  }
}

void InferNGramRepeatBlock(InferContext& context) { context.SetOutput(0, context.InputType(1)); }

}  // namespace

FERRY_OPERATOR_IN(microsoft, NGramRepeatBlock, {.compute = ComputeNGramRepeatBlock, .infer = InferNGramRepeatBlock});

}  // namespace ferry
