// Models that are sound files and unsound graphs: what kernels and passes have to live with.
#pragma once

#include <string>

#include "mutants/damage.h"

namespace ferry::mutants {

// The model of `bytes` with one to three things changed: an operator, an attribute, an edge, a type, the elements of a
// weight, the opset. Throws when the bytes hold no model.
std::string WithWoundedGraph(const std::string& bytes, Random& random);

}  // namespace ferry::mutants
