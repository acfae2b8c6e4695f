// .pt2 files, as torch.export.save writes them since PyTorch 2.1.
#pragma once

#include <memory>
#include <string>

#include "torch/archive.h"
#include "torch/program.h"

namespace ferry::torch {

// Weights are tensors over the mapped file; their checksums have been verified.
ExportedProgram ReadPt2(const std::string& path);
ExportedProgram ReadPt2(Archive& archive);
// Whether the archive holds an exported program (and not TorchScript or a checkpoint).
bool HoldsExportedProgram(const Archive& archive);

}  // namespace ferry::torch
