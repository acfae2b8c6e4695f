// Gives the bodies of If, Loop and Scan the constants they read from outside as initializers of their own, so that
// every other pass finds them. Elements are shared, never copied.
#pragma once

#include "graph/model.h"

namespace ferry {

bool ShareConstants(Graph& graph);

}  // namespace ferry
