// What exports of both kinds of programs share.
#pragma once

#include <string>
#include <vector>

#include "graph/model.h"
#include "tensor/tensor.h"
#include "torch/lower/builder.h"

namespace ferry::torch {

// Complex elements as pairs of real ones: the same memory under another shape.
Tensor AsPairs(const Tensor& tensor);
// Throws when more names are given than there are inputs or outputs.
void CheckUnusedNames(const char* what, const std::vector<std::string>& names, size_t count);
// Sizes are read from the graph's inputs themselves wherever they have one name.
void ReadSizesFromInputs(Builder& builder);
// What a new model says of itself.
void DescribeModel(Model& model);
// Says so when the model draws random numbers: a run does not repeat PyTorch's.
void WarnOfRandomNumbers(const Graph& graph, std::vector<std::string>& warnings);

}  // namespace ferry::torch
