// Nodes that compute the same from the same become one. Equal small constants count as the same.
#pragma once

#include "graph/model.h"

namespace ferry {

bool ShareCommonSubexpressions(Graph& graph);

}  // namespace ferry
