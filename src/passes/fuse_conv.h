// What follows a channels-last convolution (bias, sum with another image, activation) becomes part of its step.
#pragma once

#include "graph/model.h"

namespace ferry {

bool FuseConv(Graph& graph);

}  // namespace ferry
