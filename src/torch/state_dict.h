// Weights by name: what torch.save(model.state_dict()) and safetensors write.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/zip.h"
#include "tensor/tensor.h"

namespace ferry::torch {

using StateDict = std::vector<std::pair<std::string, Tensor>>;  // in the file's order

// Reads a .safetensors file or a checkpoint (.pt, .pth, .bin: a dict of tensors, or one that has such a dict under a
// key like "state_dict" beside an optimizer's things). Tensors stay in the mapped file. Nothing of a pickle is run.
StateDict ReadStateDict(const std::string& path);
StateDict ReadStateDict(const SharedBytes& file);

}  // namespace ferry::torch
