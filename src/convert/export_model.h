// From a PyTorch program to the ONNX model that is written: lowered, simplified, brought to the opset asked for,
// checked.
#pragma once

#include <string>

#include "torch/export.h"

namespace ferry {

// A .pt2 or .pt file. Throws kUnsupported, naming operator, node and module, when something has no export or the opset
// cannot say it.
torch::Exported ExportModel(const std::string& path, const torch::ExportOptions& options = {});

}  // namespace ferry
