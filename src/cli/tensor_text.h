// Values as people and JSON read them.
#pragma once

#include <string>

#include "base/json.h"
#include "tensor/value.h"

namespace ferry::cli {

// All elements of a small tensor, the corners of a large one: [[1, 2, 3], [4, 5, 6]].
std::string FormatValue(const Value& value, std::string_view indent);

// {"type": "float[1, 3]", "shape": [1, 3], "values": […]}; of large tensors only least, largest and mean.
Json ValueToJson(const Value& value);

}  // namespace ferry::cli
