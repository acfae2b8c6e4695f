// Caches that a graph appends to by Concat, turned so that the tokens come first: then what is new goes behind what is
// there, and nothing else moves.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"

namespace ferry {

// Turns all of these inputs and outputs (past, present), [batch, heads, tokens, size], into [batch, tokens, heads,
// size] and gives true; leaves the graph as it is where one of them is used in a way that would copy it then.
bool PutTokensFirst(Graph& graph, const std::vector<std::pair<std::string, std::string>>& caches);

}  // namespace ferry
