// What EmbedLayerNormalization and its quantised form share.
#pragma once

#include "ops/support/compose.h"

namespace ferry {

struct EmbeddingInputs {
  Term ids, segments, words, positions, segment_table, gamma, beta, mask, position_ids;
};

// Outputs: the normalised sum, mask_index, and the sum itself.
void ComposeEmbedding(Composer& c, const EmbeddingInputs& inputs);

}  // namespace ferry
