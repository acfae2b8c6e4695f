// The JSON graph inside a .pt2 archive (torch/_export/serde/schema.py in PyTorch), schema versions 1 to 8.
#pragma once

#include "base/json.h"
#include "torch/program.h"

namespace ferry::torch {

// Fills in everything but the weights and sample inputs. Errors say the node they are about.
ExportedProgram ParseProgram(const Json& json);
TensorMeta ParseTensorMeta(const Json& json);

}  // namespace ferry::torch
