// The most likely sequences of a decoder, or of an encoder and a decoder (T5, Whisper).
#include "ops/support/beam_search.h"

#include "ops/operator.h"

namespace ferry {
namespace {

void ComputeBeamSearch(OpContext& context) {
  ScoreRules none;
  RunBeamSearch(context, none, TokenSearch::kGpt);
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, BeamSearch,
                  {.compute = ComputeBeamSearch, .infer = InferTokenSearch, .has_subgraphs = true});

}  // namespace ferry
