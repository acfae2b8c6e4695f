#include "mutants/wound_graph.h"

#include <cstring>
#include <limits>
#include <memory>
#include <variant>
#include <vector>

#include "onnx/reader.h"
#include "onnx/writer.h"
#include "ops/operator.h"

namespace ferry::mutants {
namespace {

template <class List>
auto& Any(List&& list, Random& random) {
  return list[random() % list.size()];
}

int64_t AnyInt(Random& random) {
  static constexpr int64_t kInts[] = {0,     -1,        1,         2,       3,          -2,          7,         16,
                                      65536, 1'000'000, 1LL << 31, 1 << 30, -(1 << 30), (1LL << 40), 1LL << 62, 100};
  const uint64_t choice = random() % 20;
  if (choice == 0) return std::numeric_limits<int64_t>::max();
  if (choice == 1) return std::numeric_limits<int64_t>::min();
  return kInts[random() % std::size(kInts)];
}

float AnyFloat(Random& random) {
  static constexpr float kFloats[] = {0, -1, 1e-45F, 3e38F, -3e38F, 0.5F};
  const uint64_t choice = random() % 8;
  if (choice == 0) return std::numeric_limits<float>::quiet_NaN();
  if (choice == 1) return std::numeric_limits<float>::infinity();
  return kFloats[random() % std::size(kFloats)];
}

std::string AnyValue(const Graph& graph, Random& random) {
  std::vector<std::string> names{""};
  for (const ValueInfo& input : graph.inputs) names.push_back(input.name);
  for (const StoredTensor& weight : graph.initializers) names.push_back(weight.name);
  for (const Node& node : graph.nodes) names.insert(names.end(), node.outputs.begin(), node.outputs.end());
  return Any(names, random);
}

void ChangeOperator(Node& node, Random& random) {
  const Operator& other = *Any(AllOperators(), random);
  node.op_type = other.name;
  node.domain = other.domain;
}

void ChangeAttribute(Node& node, Random& random) {
  if (node.attributes.empty()) return node.Set("axis", AnyInt(random));
  Attribute& attribute = Any(node.attributes, random);
  if (auto* number = std::get_if<int64_t>(&attribute.held))
    *number = AnyInt(random);
  else if (auto* real = std::get_if<float>(&attribute.held))
    *real = AnyFloat(random);
  else if (auto* reals = std::get_if<std::vector<float>>(&attribute.held); reals && !reals->empty())
    Any(*reals, random) = AnyFloat(random);
  else if (auto* text = std::get_if<std::string>(&attribute.held))
    text->assign(random() % 2 ? "" : "SAME_UPPER");
  else if (auto* numbers = std::get_if<std::vector<int64_t>>(&attribute.held)) {
    const uint64_t how = random() % 4;
    if (how == 0 || numbers->empty())
      numbers->push_back(AnyInt(random));
    else if (how == 1)
      numbers->pop_back();
    else
      Any(*numbers, random) = AnyInt(random);
  }
}

void ChangeInputs(Node& node, const Graph& graph, Random& random) {
  if (node.inputs.empty() || random() % 6 == 0) return node.inputs.push_back(AnyValue(graph, random));
  switch (random() % 4) {
    case 0: node.inputs.pop_back(); break;
    case 1: std::swap(Any(node.inputs, random), Any(node.inputs, random)); break;
    case 2: Any(node.inputs, random).clear(); break;
    default: Any(node.inputs, random) = AnyValue(graph, random); break;
  }
}

void ChangeType(Type& type, Random& random) {
  if (random() % 3 == 0) type.dtype = static_cast<DType>(random() % 24);
  if (!type.shape) return;
  SymbolicShape& shape = *type.shape;
  switch (random() % 5) {
    case 0: shape.emplace_back(AnyInt(random)); break;
    case 1:
      if (!shape.empty()) shape.pop_back();
      break;
    case 2:
      if (!shape.empty()) Any(shape, random) = Dim();
      break;
    default:
      if (!shape.empty()) Any(shape, random) = Dim(static_cast<int64_t>(random() % 6));
      break;
  }
}

// Integers become indices and sizes: those are what hurts.
void ChangeWeight(StoredTensor& weight, Random& random) {
  if (!weight.tensor.defined() || weight.tensor.size() == 0) return;
  if (weight.dtype == DType::kInt64) {
    std::vector<int64_t> values(weight.tensor.Data<int64_t>(), weight.tensor.Data<int64_t>() + weight.tensor.size());
    Any(values, random) = AnyInt(random);
    const std::vector<int64_t> dims = weight.dims;
    weight = MakeStored(weight.name, Tensor::FromVector<int64_t>(values));
    if (dims.empty()) weight.dims.clear();
  } else if (!weight.dims.empty()) {
    Any(weight.dims, random) = static_cast<int64_t>(random() % 5);
  }
}

void WoundOnce(Model& model, Random& random) {
  Graph* graph = &model.graph;
  if (graph->nodes.empty()) return;
  Node& node = Any(graph->nodes, random);
  // Now and then inside a body.
  for (const Attribute& attribute : node.attributes)
    if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body && random() % 2)
      graph = body->get();
  if (graph->nodes.empty()) return;
  Node& victim = Any(graph->nodes, random);
  switch (random() % 16) {
    case 0: return ChangeOperator(victim, random);
    case 1:
    case 2:
    case 3:
    case 4: return ChangeAttribute(victim, random);
    case 5:
    case 6:
    case 7: return ChangeInputs(victim, *graph, random);
    case 8:
      if (!victim.attributes.empty()) victim.attributes.pop_back();
      return;
    case 9:
      for (const Attribute& attribute : Any(graph->nodes, random).attributes)
        victim.Set(attribute.name, attribute.held);
      return;
    case 10:
    case 11:
      if (!graph->inputs.empty()) ChangeType(Any(graph->inputs, random).type, random);
      return;
    case 12:
      if (!graph->initializers.empty()) ChangeWeight(Any(graph->initializers, random), random);
      return;
    case 13:
      if (!model.opsets.empty()) Any(model.opsets, random).version = static_cast<int64_t>(1 + random() % 30);
      return;
    case 14:
      if (!victim.outputs.empty()) Any(victim.outputs, random) = AnyValue(*graph, random);
      return;
    default: graph->nodes.erase(graph->nodes.begin() + (&victim - graph->nodes.data())); return;
  }
}

}  // namespace

std::string WithWoundedGraph(const std::string& bytes, Random& random) {
  auto kept = std::make_shared<std::string>(bytes);
  Model model = ReadModelFromMemory({reinterpret_cast<const std::byte*>(kept->data()), kept->size()}, kept);
  for (size_t wounds = random() % 4 == 0 ? 2 : 1; wounds > 0; --wounds) WoundOnce(model, random);
  return SerializeModel(model);
}

}  // namespace ferry::mutants
