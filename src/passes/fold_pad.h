// Padding with zeros in front of a convolution becomes the convolution's own.
#pragma once

#include "graph/model.h"

namespace ferry {

bool FoldPad(Graph& graph);

}  // namespace ferry
