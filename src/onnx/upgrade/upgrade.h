// Turns the nodes of older opsets into the newest form of their operators, so that there is one kernel per operator.
#pragma once

#include "graph/model.h"

namespace ferry {

// Edits the model in place, bodies and functions included, and sets its opset imports to the newest. Nodes that stand
// in front of what they read are moved behind it; a domain that is used and not imported is imported. Nodes of domains
// that the standard does not know stay as they are. Throws kInvalidModel for a cycle, kUnsupported for an opset from
// the future and for the rare node whose old meaning the newest operators cannot express.
void UpgradeToNewest(Model& model);
// The same for one domain only.
void UpgradeToNewest(Model& model, std::string_view domain);

// True when some node has an older form than the newest.
bool NeedsUpgrade(const Model& model);

}  // namespace ferry
