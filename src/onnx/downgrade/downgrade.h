// Writes a model of the newest opset for an older one. What the older opset has in another form is put in that form,
// what it lacks is written out in operators it has, and what cannot be said in it is refused.
#pragma once

#include <functional>
#include <string>

#include "graph/model.h"

namespace ferry {

// The type of a value that the main graph (null) or one of its bodies makes itself; null when it is not known.
using InferredTypes = std::function<const Type*(const Graph* body, const std::string& name)>;

inline constexpr int64_t kOldestTarget = 7;

// `model` is at the newest opset of ai.onnx and has no functions; `inferred` gives the types and shapes of its values
// (rules need ranks). Edits in place and sets the import. Throws kUnsupported, naming the node and the reason. What the
// rules let pass is not yet proven to be valid: check the result.
void Downgrade(Model& model, int64_t target, const InferredTypes& inferred);

}  // namespace ferry
