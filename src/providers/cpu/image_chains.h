// Runs of nodes that treat every image of a batch by itself. Where a batch's images do not stay in the cache from one
// step to the next but some of them do, it pays to take these through the whole run before the others.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/plan_hints.h"

namespace ferry {

// `nodes` in the order they run; `results` are read after the last of them.
std::vector<ImageChain> FindImageChains(std::span<const Node* const> nodes, const OuterFacts& facts,
                                        const std::vector<std::string>& results);

}  // namespace ferry
