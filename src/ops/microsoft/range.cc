// Range whose inputs may be vectors of one element, and whose step is 1 unless given.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeRange(Composer& c) {
  auto scalar = [&](Term term) { return term.rank() == 0 ? term : c.Reshape(term, {}); };
  Term step = c.In(2) ? scalar(c.In(2)) : c.Number(1, c.In(0).type());
  c.Out(0, c.Call("Range", {scalar(c.In(0)), scalar(c.In(1)), step}));
}

FERRY_OPERATOR_IN(microsoft, Range, (Composed<ComposeRange>()));
FERRY_COMPOSITION(microsoft, Range, ComposeRange);

}  // namespace ferry
