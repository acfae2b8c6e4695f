// Nodes behind those whose results they read, as the standard wants them and as many exporters do not write them.
#pragma once

#include "graph/model.h"

namespace ferry {

// Sorts the nodes of the graph and of every graph inside it. Stable: nodes in order stay as they are, others move only
// as far as they must. True when something moved. Throws kInvalidModel that names the nodes of a cycle.
bool SortNodes(Graph& graph);
// The same for a model: its graph, functions and training graphs.
bool SortNodes(Model& model);

}  // namespace ferry
