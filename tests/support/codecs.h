// Which models a build can run: without image codecs (-DFERRY_IMAGE=OFF) those that decode images are left out.
#pragma once

#include <algorithm>

#include "graph/model.h"

namespace ferry::testing {

inline bool IsForThisBuild([[maybe_unused]] const Graph& graph) {
#ifdef FERRY_IMAGE
  return true;
#else
  return std::none_of(graph.nodes.begin(), graph.nodes.end(),
                      [](const Node& node) { return node.op_type == "ImageDecoder"; });
#endif
}

}  // namespace ferry::testing
