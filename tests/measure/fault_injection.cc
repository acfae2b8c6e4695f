#include "tests/measure/fault_injection.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

namespace ferry::testing {
namespace {

// Operators of the same arity that may stand in for each other.
const std::map<std::string, std::vector<std::string>> kStandIns = {
    {"Relu", {"Sigmoid", "Tanh", "Softplus"}},
    {"Sigmoid", {"Relu", "Tanh", "HardSigmoid"}},
    {"HardSigmoid", {"Sigmoid"}},
    {"HardSwish", {"Relu"}},
    {"Gelu", {"Relu", "Tanh"}},
    {"Tanh", {"Sigmoid"}},
    {"Sqrt", {"Abs"}},
    {"Reciprocal", {"Neg"}},
    {"Neg", {"Abs"}},
    {"Sin", {"Cos"}},
    {"Cos", {"Sin"}},
    {"Add", {"Sub", "Max"}},
    {"Sub", {"Add"}},
    {"Mul", {"Add", "Sub"}},
    {"Div", {"Mul"}},
    {"Max", {"Min"}},
    {"Softmax", {"LogSoftmax"}},
    {"ReduceMean", {"ReduceMax", "ReduceSum"}},
    {"ReduceSum", {"ReduceMean"}},
    {"And", {"Or"}},
    {"Or", {"And"}},
    {"Greater", {"Less"}},
    {"LessOrEqual", {"GreaterOrEqual"}},
    {"GreaterOrEqual", {"LessOrEqual"}},
    {"Equal", {"Less"}},
};

bool HasEpsilon(const Node& node) {
  return node.op_type.find("Normalization") != std::string::npos && node.op_type != "LpNormalization";
}

StoredTensor* FindWeight(Graph& graph, const std::string& name) {
  for (StoredTensor& initializer : graph.initializers)
    if (initializer.name == name) return &initializer;
  return nullptr;
}

std::vector<size_t> FloatWeights(Graph& graph, const Node& node) {
  std::vector<size_t> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (StoredTensor* weight = FindWeight(graph, node.inputs[i]))
      if (weight->dtype == DType::kFloat && weight->Get().size() > 0) inputs.push_back(i);
  return inputs;
}

// The constant input that says the axes, or -1.
int AxesInput(Graph& graph, const Node& node) {
  size_t place = node.op_type.rfind("Reduce", 0) == 0 || node.op_type == "CumSum" ? 1 : 0;
  if (place == 0 || place >= node.inputs.size()) return -1;
  StoredTensor* axes = FindWeight(graph, node.inputs[place]);
  return axes && axes->dtype == DType::kInt64 && axes->Get().size() == 1 ? static_cast<int>(place) : -1;
}

bool CanTake(Graph& graph, const Node& node, FaultKind kind) {
  switch (kind) {
    case FaultKind::kWeight: return !FloatWeights(graph, node).empty();
    case FaultKind::kEpsilon: return HasEpsilon(node);
    case FaultKind::kAxis: return node.Has("axis") || node.Ints("perm").size() >= 2 || AxesInput(graph, node) >= 0;
    case FaultKind::kOperator: return kStandIns.count(node.op_type) > 0;
  }
  return false;
}

// The layer gets a copy of its own: other layers may share the original.
StoredTensor& OwnCopy(Graph& graph, Node& node, size_t input) {
  StoredTensor copy = MakeStored(node.inputs[input] + "_faulty", FindWeight(graph, node.inputs[input])->Get().Clone());
  node.inputs[input] = copy.name;
  graph.initializers.push_back(std::move(copy));
  return graph.initializers.back();
}

std::string BreakWeight(Graph& graph, Node& node, Random& random) {
  std::vector<size_t> inputs = FloatWeights(graph, node);
  size_t input = inputs[static_cast<size_t>(random.Int(0, static_cast<int64_t>(inputs.size()) - 1))];
  StoredTensor& weight = OwnCopy(graph, node, input);
  float* elements = weight.tensor.MutableData<float>();
  int64_t count = weight.tensor.size();
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(elements[i]));
  if (random.Bool()) {
    int64_t place = random.Int(0, count - 1);
    elements[place] += largest > 0 ? largest : 1.0f;
    return "weight: one element changed";
  }
  for (int64_t i = 0; i < count; ++i) elements[i] *= 1.1f;
  return "weight: all elements a tenth larger";
}

std::string BreakAxis(Graph& graph, Node& node, Random& random) {
  if (std::vector<int64_t> perm = node.Ints("perm"); perm.size() >= 2) {
    int64_t last = static_cast<int64_t>(perm.size()) - 1;
    int64_t a = random.Int(0, last), b = random.Int(0, last - 1);
    if (b >= a) ++b;
    std::swap(perm[static_cast<size_t>(a)], perm[static_cast<size_t>(b)]);
    node.Set("perm", perm);
    return "perm changed";
  }
  if (int place = AxesInput(graph, node); place >= 0) {
    StoredTensor& axes = OwnCopy(graph, node, static_cast<size_t>(place));
    int64_t& axis = *axes.tensor.MutableData<int64_t>();
    axis = axis > 0 || axis == -1 ? axis - 1 : axis + 1;
    return "axis input changed";
  }
  int64_t axis = node.Int("axis", 0);
  node.Set("axis", axis > 0 || axis == -1 ? axis - 1 : axis + 1);
  return "axis changed";
}

std::string BreakOperator(Node& node, Random& random) {
  const std::vector<std::string>& choices = kStandIns.at(node.op_type);
  std::string was = node.op_type;
  node.op_type = choices[static_cast<size_t>(random.Int(0, static_cast<int64_t>(choices.size()) - 1))];
  bool reduces = was.rfind("Reduce", 0) == 0 || was == "Softmax";
  if (!reduces) node.attributes.clear();
  return was + " became " + node.op_type;
}

}  // namespace

const char* Name(FaultKind kind) {
  constexpr const char* kNames[] = {"weight", "epsilon", "axis", "operator"};
  return kNames[static_cast<int>(kind)];
}

std::optional<Fault> InjectFault(Model& model, FaultKind kind, Random& random) {
  Graph& graph = model.graph;
  std::vector<size_t> layers;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (CanTake(graph, graph.nodes[i], kind)) layers.push_back(i);
  if (layers.empty()) return std::nullopt;
  Node& node = graph.nodes[layers[static_cast<size_t>(random.Int(0, static_cast<int64_t>(layers.size()) - 1))]];
  Fault fault{kind, node.name, {}};
  switch (kind) {
    case FaultKind::kWeight: fault.what = BreakWeight(graph, node, random); break;
    case FaultKind::kAxis: fault.what = BreakAxis(graph, node, random); break;
    case FaultKind::kOperator: fault.what = BreakOperator(node, random); break;
    case FaultKind::kEpsilon: {
      float epsilon = node.Float("epsilon", 1e-5f);
      node.Set("epsilon", random.Bool() ? epsilon * 1e4f : 0.1f);
      fault.what = "epsilon enlarged";
    }
  }
  return fault;
}

void TakeNamesAway(Model& model) {
  Graph& graph = model.graph;
  std::map<std::string, std::string> renamed;
  for (const auto* infos : {&graph.inputs, &graph.outputs})
    for (const ValueInfo& info : *infos) renamed[info.name] = info.name;
  auto rename = [&](std::string& name) {
    if (name.empty()) return;
    auto it = renamed.find(name);
    if (it == renamed.end()) it = renamed.emplace(name, "t" + std::to_string(renamed.size() * 7919 % 100003)).first;
    name = it->second;
  };
  std::function<void(Graph&)> visit = [&](Graph& inner) {
    for (StoredTensor& initializer : inner.initializers) rename(initializer.name);
    for (auto* infos : {&inner.inputs, &inner.outputs})
      for (ValueInfo& info : *infos) rename(info.name);
    for (Node& node : inner.nodes) {
      for (std::string& name : node.inputs) rename(name);
      for (std::string& name : node.outputs) rename(name);
      for (Attribute& attribute : node.attributes)
        if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body) visit(**body);
      node.name.clear();
    }
    inner.value_infos.clear();
    std::reverse(inner.initializers.begin(), inner.initializers.end());
  };
  visit(graph);
}

}  // namespace ferry::testing
