#include "passes/widen_floats.h"

#include "ops/support/cast_tensor.h"
#include "passes/widener.h"

namespace ferry {
namespace {
constexpr Widening kToDouble = {IsWidenedToDouble, DType::kDouble};
}

bool IsWidenedToDouble(DType type) {
  return type == DType::kFloat || type == DType::kFloat16 || type == DType::kBFloat16;
}

Tensor WidenToDouble(const Tensor& tensor) {
  return IsWidenedToDouble(tensor.dtype()) ? CastTensor(tensor, DType::kDouble) : tensor;
}

Value WidenToDouble(const Value& value) {
  if (value.is_tensor()) return WidenToDouble(value.tensor());
  if (!value.is_sequence()) return value;
  Sequence widened;
  for (const Value& element : value.sequence().elements) widened.elements.push_back(WidenToDouble(element));
  return widened;
}

Type WidenToDouble(const Type& type) { return Widen(type, kToDouble); }

std::vector<std::string> WidenFloats(Graph& graph) {
  Model around;  // names are made for a whole model
  around.graph = std::move(graph);
  NameMaker names(around);
  names.Make("widened");  // gathers the names in use while every node is still in its place
  InferOptions options;
  options.on_error = [](const Node&, const Error&) {};
  GraphFacts facts = InferGraph(around.graph, {}, options);
  std::vector<std::string> kept = Widener(around.graph, std::move(facts), names, kToDouble).Run();
  graph = std::move(around.graph);
  return kept;
}

}  // namespace ferry
