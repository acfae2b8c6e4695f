// EmbedLayerNormalization over tables of bytes.
#include "ops/support/compose.h"
#include "ops/support/embedding.h"

namespace ferry {

static void ComposeQEmbedLayerNormalization(Composer& c) {
  // Scales are inputs 8 to 12 and zero points 13 to 17, in the order of the tables 2 to 6.
  auto real = [&](size_t i) {
    size_t at = i < 7 ? i - 2 : 0;
    return c.In(i) ? c.Call("DequantizeLinear", {c.In(i), c.In(8 + at), c.In(13 + at)}) : Term{};
  };
  ComposeEmbedding(c, {.ids = c.In(0),
                       .segments = c.In(1),
                       .words = real(2),
                       .positions = real(3),
                       .segment_table = real(4),
                       .gamma = real(5),
                       .beta = real(6),
                       .mask = c.In(7),
                       .position_ids = {}});
}

FERRY_OPERATOR_IN(microsoft, QEmbedLayerNormalization, (Composed<ComposeQEmbedLayerNormalization>()));
FERRY_COMPOSITION(microsoft, QEmbedLayerNormalization, ComposeQEmbedLayerNormalization);

}  // namespace ferry
