// Operators that only ONNX Runtime has, said in the standard's words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/model.h"

namespace ferry {

struct StandardModel {
  Model model;
  int64_t replaced = 0;           // nodes, those of bodies too
  std::vector<std::string> left;  // operators for which the standard has no words, each with its number of nodes
};

// The model at opset `target`; without one, at its own, or the first after it that has the words. Throws kUnsupported
// where no opset has them.
StandardModel ToStandard(const Model& model, std::optional<int64_t> target = {});

}  // namespace ferry
