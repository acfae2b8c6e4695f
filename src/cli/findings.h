// What the doctor has to say beside a comparison. ferry-runtime has no doctor: each binary links its own definition.
#pragma once

#include <string>

#include "measure/compare/comparison.h"

namespace ferry::cli {

// Adds findings about the model to the comparison, or a note why there are none.
void AddFindings(const Model& model, const std::string& path, Comparison& comparison);

}  // namespace ferry::cli
