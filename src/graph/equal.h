// Whether two models say the same, down to the last byte of what a file can hold.
#pragma once

#include <string>

#include "graph/model.h"

namespace ferry {

// How tensors are stored (raw, typed, external) does not count, nor does the wording of problems. On a difference,
// `difference` (may be null) gets its place and both sides.
bool EqualModels(const Model& a, const Model& b, std::string* difference);
bool EqualTypes(const Type& a, const Type& b);  // shapes, names of dimensions and denotations included

}  // namespace ferry
