#include <algorithm>
#include <unordered_set>

#include "doctor/lint.h"

namespace ferry {
namespace {

constexpr uint64_t kWorthAWarning = uint64_t{1} << 20;  // bytes

std::unordered_set<std::string> ReadNames(const Model& model) {
  std::unordered_set<std::string> names;
  ForEachNode(model,
              [&](const Node& node, const std::string&) { names.insert(node.inputs.begin(), node.inputs.end()); });
  ForEachGraph(model.graph, [&](const Graph& graph) {
    for (const ValueInfo& output : graph.outputs) names.insert(output.name);
    for (const QuantizationAnnotation& annotation : graph.quantization)
      for (const auto& parameter : annotation.parameters) names.insert(parameter.second);
  });
  for (const TrainingInfo& training : model.training)
    for (const auto* binding : {&training.initialization_binding, &training.update_binding})
      for (const auto& [from, to] : *binding) names.insert({from, to});
  return names;
}

// Callers may give a value for an input with a default, read or not.
bool IsUnread(const Graph& graph, const StoredTensor& tensor, const std::unordered_set<std::string>& read) {
  return !read.count(tensor.name) && !graph.FindInput(tensor.name);
}

void Look(const Patient& patient, FindingList& findings) {
  std::unordered_set<std::string> read = ReadNames(patient.model());
  ForEachGraph(patient.model().graph, [&](const Graph& graph) {
    for (const StoredTensor& tensor : graph.initializers) {
      if (!IsUnread(graph, tensor, read)) continue;
      uint64_t bytes = tensor.tensor.defined() ? tensor.tensor.bytes() : 0;
      Finding& finding = findings.Add({.value = tensor.name}, "initializer that nothing reads");
      finding.evidence.emplace_back("bytes", Cat(bytes));
      if (bytes >= kWorthAWarning) finding.severity = Severity::kWarning;
    }
  });
}

void Fix(const Patient&, Model& model, FixLog& log) {
  std::unordered_set<std::string> read = ReadNames(model);
  ForEachGraph(model.graph, [&](const Graph& found) {
    Graph& graph = const_cast<Graph&>(found);
    auto unread = [&](const StoredTensor& tensor) { return IsUnread(graph, tensor, read); };
    for (const StoredTensor& tensor : graph.initializers) {
      if (!unread(tensor)) continue;
      log.changes.push_back(Cat("initializer '", Printable(tensor.name), "' is removed"));
      auto same = [&](const ValueInfo& info) { return info.name == tensor.name; };
      std::erase_if(graph.value_infos, same);
    }
    graph.initializers.erase(std::remove_if(graph.initializers.begin(), graph.initializers.end(), unread),
                             graph.initializers.end());
  });
}

}  // namespace

extern const Lint lint_unused_initializer;
constinit const Lint lint_unused_initializer = {
    .name = "unused-initializer",
    .meaning = "Every initializer is read by something.",
    .severity = Severity::kNote,
    .remedy = "Let 'ferry doctor --fix' remove it.",
    .look = Look,
    .stage = 70,
    .fix = Fix,
};

}  // namespace ferry
