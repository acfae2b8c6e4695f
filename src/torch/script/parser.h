// Reads TorchScript's text form. It runs nothing, and refuses what nests too deep.
#pragma once

#include <string>
#include <string_view>

#include "torch/script/syntax.h"

namespace ferry::torch::script {

// `name` is for messages. Throws kInvalidModel with the line.
SourceFile ParseSource(std::string_view text, const std::string& name);

}  // namespace ferry::torch::script
