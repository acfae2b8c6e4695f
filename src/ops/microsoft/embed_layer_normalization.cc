// BERT's embeddings: rows of three tables added up and normalised. mask_index counts the ones of each row of the mask.
#include "ops/support/compose.h"
#include "ops/support/embedding.h"

namespace ferry {

static void ComposeEmbedLayerNormalization(Composer& c) {
  EmbeddingInputs inputs{.ids = c.In(0),
                         .segments = c.In(1),
                         .words = c.In(2),
                         .positions = c.In(3),
                         .segment_table = c.In(4),
                         .gamma = c.In(5),
                         .beta = c.In(6),
                         .mask = c.In(7),
                         .position_ids = c.In(8)};
  ComposeEmbedding(c, inputs);
}

FERRY_OPERATOR_IN(microsoft, EmbedLayerNormalization, (Composed<ComposeEmbedLayerNormalization>()));
FERRY_COMPOSITION(microsoft, EmbedLayerNormalization, ComposeEmbedLayerNormalization);

}  // namespace ferry
