// Activations as exporters write them, found again.
#pragma once

#include <optional>

#include "graph/editor.h"
#include "kernels/activation.h"

namespace ferry {

// An activation applied to `value`, whose result is `output`; `nodes` are all the nodes it is made of.
struct ActivationMatch {
  Activation activation;
  std::string output;
  std::vector<size_t> nodes;
};

// Matches when nothing but the activation reads `value`.
std::optional<ActivationMatch> MatchActivation(const GraphEditor& editor, const std::string& value);

}  // namespace ferry
