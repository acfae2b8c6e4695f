// Which activation of the kernels a node of the standard is: the one table of them.
#pragma once

#include <optional>

#include "base/function_ref.h"
#include "graph/model.h"
#include "kernels/activation.h"

namespace ferry {

// `constant` gives what is known of an input, null for what is computed: the limits of a Clip are inputs. Empty when
// kernels have no such activation. The node's input is not looked at: kernels apply them to float32.
std::optional<Activation> StandardActivation(const Node& node, FunctionRef<const Tensor*(size_t input)> constant);

}  // namespace ferry
