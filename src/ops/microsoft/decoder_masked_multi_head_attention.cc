// One token per sequence against caches that have room for more, and beams that share them.
#include "ops/support/compose_attention.h"
#include "ops/support/scalar.h"

namespace ferry {

static void ComposeDecoderMasked(Composer& c) {
  if (c.In(8) && c.In(9)) {
    int64_t beams = ScalarInt(c.In(8).value(), "beam_width");
    Require(beams == c.In(9).size(1), "beam_width is ", beams, ", cache_indirection has ", c.In(9).size(1), " beams");
  }
  ComposeDecoder(c, {c.In(0), c.In(1), c.In(2), c.In(3), c.In(4), c.In(5), c.In(6), c.In(7), c.In(9), c.In(10)});
}

FERRY_OPERATOR_IN(microsoft, DecoderMaskedMultiHeadAttention, (Composed<ComposeDecoderMasked>()));

}  // namespace ferry
