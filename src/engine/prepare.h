// From a model as it was read to a graph that can be run for any shapes: newest operators, no functions, plain weights.
#pragma once

#include "graph/model.h"

namespace ferry {

// The result shares the model's weights where they are aligned; others are copied once, by as many threads (0: one for
// each core).
Graph PrepareGraph(const Model& model, int threads = 0);

}  // namespace ferry
