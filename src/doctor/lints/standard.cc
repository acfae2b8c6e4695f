// What 'ferry check' says, so that one command tells everything; nodes in the wrong order are put right.
#include <algorithm>
#include <unordered_map>

#include "doctor/lint.h"
#include "engine/check_inference.h"
#include "graph/scopes.h"

namespace ferry {
namespace {

// The lint shape-info speaks of these.
bool IsAboutShapes(std::string_view rule) { return rule == "inference.shape" || rule == "value.shape-missing"; }

void Look(const Patient& patient, FindingList& findings) {
  for (const Problem& problem : patient.problems()) {
    if (problem.severity == Severity::kNote || IsAboutShapes(problem.rule)) continue;
    Finding& finding = findings.Add(problem.place, problem.message);
    finding.severity = problem.severity;
    finding.evidence.emplace_back("rule", std::string(problem.rule));
    finding.remedy = problem.remedy;
    finding.fixable = problem.rule == "graph.order";
  }
}

// Stable: nodes keep their order but for those that stand in front of what they read. False when there is a cycle.
bool SortNodes(Graph& graph) {
  std::unordered_map<std::string, size_t> producer;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::string& output : graph.nodes[i].outputs)
      if (!output.empty()) producer.emplace(output, i);
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> state(graph.nodes.size(), kNew);
  std::vector<size_t> order;
  struct Frame {
    size_t node;
    std::vector<size_t> needs;
  };
  auto needs_of = [&](size_t index) {
    std::vector<std::string> names = graph.nodes[index].inputs;
    for (const std::string& name : CapturedNames(graph.nodes[index])) names.push_back(name);
    std::vector<size_t> needs;
    for (auto name = names.rbegin(); name != names.rend(); ++name)
      if (auto it = producer.find(*name); it != producer.end()) needs.push_back(it->second);
    return needs;
  };
  for (size_t start = 0; start < graph.nodes.size(); ++start) {
    if (state[start] != kNew) continue;
    std::vector<Frame> stack{{start, needs_of(start)}};
    state[start] = kOpen;
    while (!stack.empty()) {
      if (stack.back().needs.empty()) {
        state[stack.back().node] = kDone;
        order.push_back(stack.back().node);
        stack.pop_back();
        continue;
      }
      size_t next = stack.back().needs.back();
      stack.back().needs.pop_back();
      if (state[next] == kOpen) return false;
      if (state[next] == kDone) continue;
      state[next] = kOpen;
      stack.push_back({next, needs_of(next)});
    }
  }
  std::vector<Node> sorted;
  for (size_t index : order) sorted.push_back(std::move(graph.nodes[index]));
  graph.nodes = std::move(sorted);
  return true;
}

void Fix(const Patient&, Model& model, FixLog& log) {
  ForEachGraph(model.graph, [&](const Graph& graph) {
    std::vector<std::string> before, after;
    for (const Node& node : graph.nodes) before.push_back(Describe(node));
    if (!SortNodes(const_cast<Graph&>(graph))) {
      log.refusals.push_back("nodes of a cycle cannot be put in order");
      return;
    }
    for (const Node& node : graph.nodes) after.push_back(Describe(node));
    if (before != after) log.changes.push_back(Cat("nodes of graph '", Printable(graph.name), "' are in order"));
  });
}

}  // namespace

extern const Lint lint_standard;
constinit const Lint lint_standard = {
    .name = "standard",
    .meaning = "The model is valid by the ONNX standard, as 'ferry check' sees it.",
    .severity = Severity::kError,
    .remedy = "Correct the model; 'ferry check' lists every reason.",
    .look = Look,
    .stage = 10,
    .fix = Fix,
};

}  // namespace ferry
