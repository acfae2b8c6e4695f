// A graph drawn with the characters of a terminal: a line per node, and lines beside it that values run along.
#pragma once

#include <string>
#include <vector>

#include "measure/summary.h"

namespace ferry {

std::string DrawGraph(const ModelSummary& summary);

}  // namespace ferry
