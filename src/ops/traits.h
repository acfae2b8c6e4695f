// What the operator of a node says of itself, for those who look at graphs.
#pragma once

#include "ops/operator.h"

namespace ferry {

// A node of an operator that nobody knows has no traits.
inline const Operator& TraitsOf(const Node& node) {
  static constexpr Operator kNone;
  const Operator* op = FindOperator(node.domain, node.op_type);
  return op ? *op : kNone;
}

// Whether a set of inputs, a bit for each, has this one in it.
inline bool Includes(uint32_t inputs, size_t input) { return input < 32 && (inputs >> input & 1) != 0; }

}  // namespace ferry
