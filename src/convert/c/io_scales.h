// What the integers of a quantized model's inputs and outputs stand for.
#pragma once

#include <map>
#include <string>

#include "graph/model.h"

namespace ferry::c {

struct IoScale {
  float scale = 0;  // a number is scale * (integer - zero_point)
  int64_t zero_point = 0;
};

// By name: inputs and outputs that only meet operators with one and the same constant scale for the whole tensor.
std::map<std::string, IoScale> FindIoScales(const Graph& graph);

}  // namespace ferry::c
