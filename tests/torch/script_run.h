// Bodies of forward(self, x) exported and run.
#pragma once

#include <string>
#include <vector>

#include "torch/export.h"

namespace ferry::torch {

// `body` has the statements, each indented by four; x is float[n] with n open.
Exported ExportBody(const std::string& body, int opset = 20);
std::vector<float> RunBody(const std::string& body, const std::vector<float>& x, int opset = 20);
// The message it is refused with; empty when it is not.
std::string RefusalOf(const std::string& body);

}  // namespace ferry::torch
