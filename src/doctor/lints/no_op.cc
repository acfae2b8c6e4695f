// Nodes that pass their input on: Identity, casts to the type that is there, and casts there and back.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "doctor/lint.h"
#include "graph/editor.h"

namespace ferry {
namespace {

// Whether every number of `narrow` is one of `wide`, so that a cast there and back changes nothing.
bool Holds(DType wide, DType narrow) {
  if (wide == narrow) return true;
  auto mantissa = [](DType type) {
    switch (type) {
      case DType::kDouble: return 53;
      case DType::kFloat: return 24;
      default: return 0;
    }
  };
  if (mantissa(wide)) {
    if (narrow == DType::kFloat16 || narrow == DType::kBFloat16 || narrow == DType::kFloat) return true;
    return narrow == DType::kBool || (IsInteger(narrow) && BitWidth(narrow) <= mantissa(wide));
  }
  if (!IsInteger(wide) || !IsInteger(narrow)) return IsInteger(wide) && narrow == DType::kBool;
  bool wide_is_signed = IsSignedInteger(wide), narrow_is_signed = IsSignedInteger(narrow);
  if (wide_is_signed == narrow_is_signed) return BitWidth(wide) >= BitWidth(narrow);
  return wide_is_signed && BitWidth(wide) > BitWidth(narrow);
}

DType TypeOf(const Patient& patient, const std::string& name) {
  const Type* type = patient.TypeOf(name);
  return type && type->is_tensor() ? type->dtype : DType::kUndefined;
}

using Producers = std::unordered_map<std::string, const Node*>;

struct Shortcut {
  std::string source;  // what readers may read instead
  std::string why;
};

std::optional<Shortcut> FindShortcut(const Patient& patient, const Producers& producers, const Node& node) {
  if (!node.HasInput(0) || !node.HasOutput(0)) return std::nullopt;
  if (IsStandard(node, "Identity")) return Shortcut{node.inputs[0], "passes its input on unchanged"};
  if (!IsStandard(node, "Cast")) return std::nullopt;
  DType from = TypeOf(patient, node.inputs[0]), to = static_cast<DType>(node.Int("to", 0));
  if (from == DType::kUndefined || !IsValidDType(node.Int("to", 0))) return std::nullopt;
  if (from == to) return Shortcut{node.inputs[0], Cat("casts ", from, " to ", to)};
  auto before = producers.find(node.inputs[0]);
  if (before == producers.end() || !IsStandard(*before->second, "Cast")) return std::nullopt;
  const std::string& origin = before->second->inputs[0];
  DType start = TypeOf(patient, origin);
  if (start == to && Holds(from, start)) return Shortcut{origin, Cat("casts back to ", to, " what was cast to ", from)};
  return std::nullopt;
}

Producers ProducersOf(const Graph& graph) {
  Producers producers;
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs) producers.emplace(output, &node);
  return producers;
}

void Look(const Patient& patient, FindingList& findings) {
  const Graph& graph = patient.model().graph;
  Producers producers = ProducersOf(graph);
  for (const Node& node : graph.nodes) {
    std::optional<Shortcut> shortcut = FindShortcut(patient, producers, node);
    if (!shortcut) continue;
    Finding& finding = findings.Add(PlaceOf(node), shortcut->why);
    finding.evidence.emplace_back("same as", shortcut->source);
  }
}

void Fix(const Patient& patient, Model& model, FixLog& log) {
  Graph& graph = model.graph;
  Producers producers = ProducersOf(patient.model().graph);
  std::unordered_set<std::string> outputs;  // of the model and of bodies, which may give a value from outside
  ForEachGraph(graph, [&](const Graph& inner) {
    for (const ValueInfo& output : inner.outputs) outputs.insert(output.name);
  });
  std::unordered_map<std::string, std::string> replaced;
  for (const Node& node : patient.model().graph.nodes) {
    std::optional<Shortcut> shortcut = FindShortcut(patient, producers, node);
    if (!shortcut) continue;
    if (outputs.count(node.outputs[0])) {
      log.refusals.push_back(Cat(Describe(node), " stays: it gives an output its name"));
      continue;
    }
    auto earlier = replaced.find(shortcut->source);
    replaced[node.outputs[0]] = earlier == replaced.end() ? shortcut->source : earlier->second;
    log.changes.push_back(Cat(Describe(node), " is removed"));
  }
  internal::ForEachNodeIn(graph.nodes, "", [&](Node& node, const std::string&) {
    for (std::string& input : node.inputs)
      if (auto it = replaced.find(input); it != replaced.end()) input = it->second;
  });
  if (replaced.empty()) return;
  GraphEditor editor(graph);
  for (size_t i = 0; i < editor.size(); ++i)
    if (editor.node(i).HasOutput(0) && replaced.count(editor.node(i).outputs[0])) editor.Remove(i);
  editor.Finish();
}

}  // namespace

extern const Lint lint_no_op;
constinit const Lint lint_no_op = {
    .name = "no-op",
    .meaning = "No Identity, no cast to the type that is there already, no cast there and back.",
    .severity = Severity::kNote,
    .remedy = "Let 'ferry doctor --fix' remove the node.",
    .look = Look,
    .stage = 60,
    .fix = Fix,
};

}  // namespace ferry
