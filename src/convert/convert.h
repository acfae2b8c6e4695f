// Opset conversion, up and down.
#pragma once

#include "graph/model.h"

namespace ferry {

// A model that means the same at opset `target` of ai.onnx (7 to the newest), its other domains left as they are, its
// IR version one that goes with the opset. The result is checked by the standard. Throws kUnsupported with the node and
// the reason where the meaning cannot be kept.
Model ConvertOpset(const Model& model, int64_t target);

}  // namespace ferry
