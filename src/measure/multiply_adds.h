// What a node costs, counted in multiply-add pairs: the usual measure of convolutions, products and recurrences.
// Operators that do only a few operations per element count nothing.
#pragma once

#include <optional>
#include <span>

#include "ops/infer_context.h"

namespace ferry {

// Nothing when the shapes that decide it are not known. Facts are null for what is omitted.
std::optional<double> MultiplyAdds(const Node& node, std::span<const ValueFacts* const> inputs,
                                   std::span<const ValueFacts* const> outputs);

}  // namespace ferry
