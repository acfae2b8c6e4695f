// If, Loop and Scan: their bodies become part of the function, between braces.
#pragma once

#include "convert/c/graph_writer.h"

namespace ferry::c {

// False for a node that is none of them.
bool AddControlFlow(GraphWriter& writer, const Node& node);

}  // namespace ferry::c
