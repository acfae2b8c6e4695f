#include "ops/support/fused.h"

#include "base/error.h"

namespace ferry {

Activation ActivationOf(const Node& node) {
  return {static_cast<ActivationKind>(node.Int("activation", 0)), node.Float("alpha", 0), node.Float("beta", 0)};
}

void SetActivation(Node& node, const Activation& activation) {
  node.Set("activation", static_cast<int64_t>(activation.kind));
  node.Set("alpha", activation.alpha);
  node.Set("beta", activation.beta);
}

AttentionForm AttentionFormOf(const Node& node, std::string_view attribute) {
  int64_t form = node.Int(attribute, 0);
  Require(form >= 0 && form <= 2, "attribute '", attribute, "' must be 0, 1 or 2, is ", form);
  return static_cast<AttentionForm>(form);
}

}  // namespace ferry
