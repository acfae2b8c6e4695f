#include "ops/support/compose.h"

namespace ferry {

static void ComposeTrilu(Composer& c) { c.Out(0, c.Call("Trilu", {c.In(0), c.In(1)}, c.Keep({"upper"}))); }

FERRY_OPERATOR_IN(microsoft, Trilu, (Composed<ComposeTrilu>()));
FERRY_COMPOSITION(microsoft, Trilu, ComposeTrilu);

}  // namespace ferry
