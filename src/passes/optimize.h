// The rewrites that make a prepared graph faster without changing its answers beyond rounding.
#pragma once

#include "graph/model.h"

namespace ferry {

void Optimize(Graph& graph);

}  // namespace ferry
