// TorchScript archives to ONNX models.
#pragma once

#include "torch/archive.h"
#include "torch/export.h"

namespace ferry::torch {

// Types of inputs are taken from options.input_types, then options.samples, then what the archive was traced with.
// Throws kInvalidArgument when an input's type cannot be told, kUnsupported as ExportProgram does.
Exported ExportScript(Archive& archive, const ExportOptions& options);

}  // namespace ferry::torch
