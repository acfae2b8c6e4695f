// Operators that only passes make: one step where the standard writes several. Domain "ferry", never written to a file.
#pragma once

#include <string_view>

#include "graph/model.h"
#include "kernels/activation.h"
#include "ops/operator.h"

namespace ferry {

// The activation a fused node carries in its attributes "activation", "alpha" and "beta".
Activation ActivationOf(const Node& node);
void SetActivation(Node& node, const Activation& activation);

// How an operand of FusedAttention lies: [batch, heads, length, size], heads after the length, or sizes before the
// length.
enum class AttentionForm { kPlain, kHeadsInside, kTransposed };
AttentionForm AttentionFormOf(const Node& node, std::string_view attribute);

}  // namespace ferry
