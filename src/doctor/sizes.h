// At which sizes of its named dimensions a model can run at all: constants inside may leave it one only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/model.h"

namespace ferry {

using SizesByName = std::map<std::string, int64_t>;

// Sizes that the constants of a graph speak of: in shapes, in states and in tensors that are expanded. Those that stand
// first, where a batch does, come first.
std::vector<int64_t> SuspiciousSizes(const Graph& graph);

struct RunnableSizes {
  SizesByName sizes;     // of the inputs' named dimensions; empty where 1 will do for all, and where nothing was found
  bool is_only = false;  // neither 1 nor other sizes near these will do
  std::string why;       // what goes wrong at the others
};

// By inference alone: nothing is run. `graph` has newest operators and no functions.
RunnableSizes FindRunnableSizes(const Graph& graph);

}  // namespace ferry
