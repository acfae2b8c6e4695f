#include "passes/shapes.h"

namespace ferry {

std::optional<Shape> KnownShape(const GraphFacts& facts, const std::string& value) {
  const ValueFacts* known = facts.Find(value);
  return known && known->type.is_tensor() && known->type.shape ? ToConcrete(*known->type.shape) : std::nullopt;
}

std::string AddShapeConstant(const Shape& shape, GraphEditor& editor, GraphFacts& facts) {
  Tensor sizes = Tensor::FromVector(shape.ToVector());
  ValueFacts known = FactsOf(sizes);
  std::string name = editor.AddConstant("shape", std::move(sizes));
  facts.values[name] = std::move(known);
  return name;
}

}  // namespace ferry
