// The second half of checking a model: types and shapes that come out of the operators, held against what is declared.
#pragma once

#include <vector>

#include "onnx/checker/checker.h"

namespace ferry {

// For models in which CheckModel finds no error. Finds nodes that cannot be (shapes that do not go together, attribute
// values out of range) and declarations that contradict what the operators give.
std::vector<Problem> CheckInference(const Model& model, const CheckOptions& options = {});

// CheckModel, and CheckInference when the structure holds.
std::vector<Problem> CheckFully(const Model& model, const CheckOptions& options = {});

}  // namespace ferry
