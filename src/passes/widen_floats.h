// Every float of a graph made double: the reference that a run in float, float16 or bfloat16 is held against.
#pragma once

#include <string>
#include <vector>

#include "graph/model.h"
#include "tensor/value.h"

namespace ferry {

// float, float16 and bfloat16. Narrower floats are codes of quantised numbers and mean something else when widened.
bool IsWidenedToDouble(DType type);
Tensor WidenToDouble(const Tensor& tensor);
Value WidenToDouble(const Value& value);  // containers too
Type WidenToDouble(const Type& type);

// Rewrites a prepared graph (newest operators, no functions), bodies included. Names of values stay. A parameter whose
// operator is not defined for double by the standard keeps its type between two casts; the result says which nodes
// compute in their own precision because of that.
std::vector<std::string> WidenFloats(Graph& graph);

}  // namespace ferry
