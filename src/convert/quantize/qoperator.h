// QLinearConv and QLinearMatMul in place of DequantizeLinear, operator, QuantizeLinear.
#pragma once

#include "graph/model.h"

namespace ferry::quantize {

// What has no such operator stays as it is.
Model ToQOperators(const Model& model);

}  // namespace ferry::quantize
