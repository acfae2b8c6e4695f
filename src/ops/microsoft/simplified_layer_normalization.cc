// RMSNormalization under the name that ONNX Runtime gave it, in the standard's domain, before the standard had it.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeSimplified(Composer& c) {
  Term x = c.In(0);
  int64_t axis = c.node().Int("axis", -1);
  float epsilon = c.node().Float("epsilon", 1e-5f);
  c.Out(0, c.Call("RMSNormalization", {x, c.In(1)}, {{"axis", axis}, {"epsilon", epsilon}}));
  if (!c.Wants(1)) return;
  std::vector<int64_t> axes;
  for (size_t i = NormalizeAxis(axis, x.rank()); i < x.rank(); ++i) axes.push_back(static_cast<int64_t>(i));
  Term wide = c.Widen(x);
  Term squares = c.Call("ReduceMean", {c.Call("Mul", {wide, wide}), c.Ints(axes)});
  c.Out(1, c.Call("Reciprocal", {c.Call("Sqrt", {c.Call("Add", {squares, c.Number(epsilon, wide.type())})})}));
}

FERRY_OPERATOR(SimplifiedLayerNormalization, (Composed<ComposeSimplified>()));
FERRY_COMPOSITION(onnx, SimplifiedLayerNormalization, ComposeSimplified);

}  // namespace ferry
