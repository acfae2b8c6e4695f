// From a model as it was read to a graph that can be run for any shapes: newest operators, no functions, plain weights.
#pragma once

#include "graph/model.h"

namespace ferry {

// The result shares the model's weights where they are aligned; others are copied once.
Graph PrepareGraph(const Model& model);

}  // namespace ferry
