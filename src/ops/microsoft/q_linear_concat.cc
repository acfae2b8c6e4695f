// Concat of bytes, each input with a scale and a zero point of its own.
#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeQLinearConcat(Composer& c) {
  Require(c.input_count() >= 5 && (c.input_count() - 2) % 3 == 0,
          "inputs must be y_scale, y_zero_point and three for each part, there are ", c.input_count());
  std::vector<Term> parts;
  for (size_t i = 2; i + 2 < c.input_count(); i += 3) parts.push_back(Real(c, i));
  DType type = c.In(2).type();
  Term y = c.Call("Concat", parts, {{"axis", c.node().Int("axis", 0)}});
  c.Out(0, Quantized(c, y, c.In(0), c.In(1), type));
}

FERRY_OPERATOR_IN(microsoft, QLinearConcat, (Composed<ComposeQLinearConcat>()));
FERRY_COMPOSITION(microsoft, QLinearConcat, ComposeQLinearConcat);

}  // namespace ferry
