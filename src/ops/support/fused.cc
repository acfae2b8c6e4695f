#include "ops/support/fused.h"

namespace ferry {

Activation ActivationOf(const Node& node) {
  return {static_cast<ActivationKind>(node.Int("activation", 0)), node.Float("alpha", 0), node.Float("beta", 0)};
}

void SetActivation(Node& node, const Activation& activation) {
  node.Set("activation", static_cast<int64_t>(activation.kind));
  node.Set("alpha", activation.alpha);
  node.Set("beta", activation.beta);
}

}  // namespace ferry
