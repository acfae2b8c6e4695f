// Numbers of half precision in place of float32.
#pragma once

#include <set>
#include <string>

#include "graph/model.h"

namespace ferry::quantize {

struct HalfOptions {
  DType type = DType::kFloat16;     // or kBFloat16
  std::set<std::string> too_large;  // values that the type cannot hold: what makes or reads them stays float32
  std::set<std::string> keep;       // nodes, by name or output
  bool inputs = false;              // inputs and outputs of the model too
};

struct HalfModel {
  Model model;
  std::vector<std::pair<std::string, std::string>> kept;  // nodes that stay float32, and why
};

// `base` is of the newest opset.
HalfModel WriteHalf(const Model& base, const HalfOptions& options, int64_t opset);

}  // namespace ferry::quantize
