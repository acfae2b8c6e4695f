// From what an Emitter collected to a Graph: only what is needed for the outputs, every value with a name of its own.
#pragma once

#include <string>
#include <vector>

#include "torch/lower/emitter.h"

namespace ferry::torch {

// `outputs` are the graph's results, in order, with the names they shall have ("" leaves the choice open).
Graph FinishGraph(Emitter& emitter, const std::vector<std::pair<std::string, Operand>>& outputs);

}  // namespace ferry::torch
