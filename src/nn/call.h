// One operator applied to values at once: what a network written in C++ is made of.
#pragma once

#include <span>
#include <vector>

#include "graph/model.h"
#include "tensor/value.h"

namespace ferry {

// Runs an operator in its newest form. `call` has the operator, its domain, its attributes and the name that errors
// call it by; its own inputs and outputs are not looked at. A null input is an omitted one. Throws when the standard's
// operator does not take such inputs, attributes or that many outputs.
std::vector<Value> RunCall(const Node& call, std::span<const Value* const> inputs, size_t output_count);

}  // namespace ferry
