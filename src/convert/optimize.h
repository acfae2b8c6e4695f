// A model made smaller without leaving the standard: for people who hand models on, where 'ferry run' does all of this
// by itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/model.h"

namespace ferry {

struct OptimizeOptions {
  std::map<std::string, int64_t> dimensions;  // sizes that named dimensions of the inputs are fixed to
};

struct OptimizedModel {
  Model model;
  size_t nodes_before = 0, nodes_after = 0;  // of the main graph and of bodies
  size_t weight_bytes_before = 0, weight_bytes_after = 0;
  std::vector<std::string> done;  // what was done, a sentence each
};

// Constants folded, what follows from shapes computed, equal nodes merged, batch norms and scalings folded into
// weights, nodes that pass their input on and everything that nobody reads gone. The result has the model's own opset
// and the names of its inputs and outputs. Throws for a dimension that no input has.
OptimizedModel OptimizeModel(const Model& model, const OptimizeOptions& options = {});

// The same model with these sizes in place of names of dimensions: what an optimised one is held against.
Model WithDimensions(const Model& model, const std::map<std::string, int64_t>& sizes);

}  // namespace ferry
