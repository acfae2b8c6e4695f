// Exports a recorded PyTorch program, runs the model, and holds it against what PyTorch computed.
#pragma once

#include <string>
#include <vector>

#include "torch/export.h"

namespace ferry::torch {

struct CaseOutcome {
  enum class Kind { kEqual, kRefused, kWrong };
  Kind kind = Kind::kEqual;
  std::string reason;
  size_t nodes = 0;
};

// `recordings` are .npz files with in0, in1 … and out0, out1 …
CaseOutcome RunExportCase(const std::string& program, const std::vector<std::string>& recordings,
                          const ExportOptions& options = {});

}  // namespace ferry::torch
