// What a lint is: one file in src/doctor/lints/, which looks for one kind of fault and perhaps mends it. CMake collects
// them by file name: adding a lint is adding a file, a paragraph in docs/doctor.md and a test.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/doctor.h"
#include "doctor/patient.h"
#include "graph/standard.h"
#include "measure/finding.h"

namespace ferry {

struct Lint;

// Gathers the findings of one lint; what a finding does not say is taken from the lint.
class FindingList {
 public:
  FindingList(const Lint& lint, std::vector<Finding>& findings) : lint_(lint), findings_(findings) {}

  // The finding just added, to fill in what differs from the lint: severity, remedy, evidence.
  Finding& Add(Place place, std::string message);

 private:
  const Lint& lint_;
  std::vector<Finding>& findings_;
};

// What a fix did, and what it would not do.
struct FixLog {
  std::vector<std::string> changes;
  std::vector<std::string> refusals;
};

using Proof = std::vector<ProofStep>;

struct Lint {
  std::string_view name;
  std::string_view meaning;  // what it looks for, in a sentence
  Severity severity = Severity::kWarning;
  std::string_view remedy;
  void (*look)(const Patient& patient, FindingList& findings) = nullptr;

  // Fixes are made in the order of their stages, each on the result of those before.
  int stage = 0;
  void (*fix)(const Patient& patient, Model& model, FixLog& log) = nullptr;
  // What must hold between a model and its mended form; usually ProveSameOutputs.
  void (*prove)(const Patient& before, const Model& mended, Proof& proof) = nullptr;
};

extern const Lint* const kLintTable[];
extern const size_t kLintTableSize;
std::span<const Lint* const> AllLints();  // sorted by name
const Lint* FindLint(std::string_view name);

// The place of a node as findings name it.
Place PlaceOf(const Node& node, std::string graph = {});

// Calls visit(node, where) for every node of a model: of the main graph, of bodies and of functions. `where` is what
// Place::graph says.
template <class Visit>
void ForEachNode(const Model& model, const Visit& visit);

namespace internal {
template <class Nodes, class Visit>
void ForEachNodeIn(Nodes& nodes, const std::string& where, const Visit& visit) {
  for (auto& node : nodes) {
    visit(node, where);
    for (auto& attribute : node.attributes) {
      std::string inside = Cat(attribute.name, " of ", Describe(node));
      if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute.held); one && *one)
        ForEachNodeIn((*one)->nodes, inside, visit);
      if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute.held))
        for (const auto& graph : *many)
          if (graph) ForEachNodeIn(graph->nodes, inside, visit);
    }
  }
}
}  // namespace internal

template <class Visit>
void ForEachNode(const Model& model, const Visit& visit) {
  internal::ForEachNodeIn(model.graph.nodes, "", visit);
  for (const Function& function : model.functions)
    internal::ForEachNodeIn(function.nodes, Cat("function '", function.name, "'"), visit);
}
// The same to change nodes; their subgraphs must not be shared with another model (CopyDeep).
template <class Visit>
void ForEachNode(Model& model, const Visit& visit) {
  internal::ForEachNodeIn(model.graph.nodes, "", visit);
  for (Function& function : model.functions)
    internal::ForEachNodeIn(function.nodes, Cat("function '", function.name, "'"), visit);
}

}  // namespace ferry
