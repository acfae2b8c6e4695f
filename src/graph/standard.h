// Whether a node is of an operator of the ONNX standard; other domains have operators of the same names.
#pragma once

#include "base/one_of.h"
#include "graph/model.h"

namespace ferry {

inline bool IsStandard(const Node& node, std::string_view op) {
  return node.op_type == op && CanonicalDomain(node.domain).empty();
}
inline bool IsStandard(const Node& node, std::initializer_list<std::string_view> ops) {
  return IsOneOf(node.op_type, ops) && CanonicalDomain(node.domain).empty();
}

}  // namespace ferry
