// Which names a graph uses from outside itself, and names nobody uses yet.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "graph/model.h"

namespace ferry {

// Names that the graph (bodies inside it included) reads but does not make: what it captures, in order of first use.
std::vector<std::string> CapturedNames(const Graph& graph);
// The same for all bodies of one node together.
std::vector<std::string> CapturedNames(const Node& node);

}  // namespace ferry
