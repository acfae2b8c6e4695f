// How each elementwise operator is written in a kernel.
#pragma once

#include <span>
#include <string>

#include "graph/model.h"
#include "tensor/dtype.h"

namespace ferry::cuda {

struct ChainArgument {
  std::string name;  // of the variable; empty: omitted
  DType type;
  const double* constant = nullptr;  // its value, where it is known
};

// An expression of output 0's element; empty when the operator, or these types, cannot be part of a chain.
std::string ElementExpression(const Node& node, std::span<const ChainArgument> arguments, DType type);

// A literal of the number, infinities and NaN included.
std::string NumberText(double number);

}  // namespace ferry::cuda
