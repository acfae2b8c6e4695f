// Shapes that passes read from what is known of a graph, and write into it.
#pragma once

#include <optional>
#include <string>

#include "graph/editor.h"
#include "ops/infer_graph.h"

namespace ferry {

// The shape of a tensor when every size is known.
std::optional<Shape> KnownShape(const GraphFacts& facts, const std::string& value);

// Adds an initializer that holds the sizes, and what is known of it; returns its name.
std::string AddShapeConstant(const Shape& shape, GraphEditor& editor, GraphFacts& facts);

}  // namespace ferry
