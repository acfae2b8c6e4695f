// What the families of rules share while a model is checked.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "onnx/checker/checker.h"
#include "onnx/scope.h"

namespace ferry::checker {

// Gathers problems; stops listening when there are too many.
class Report {
 public:
  explicit Report(size_t most) : most_(most) {}

  void Add(std::string_view rule, Place place, std::string message, std::string remedy = {});
  bool full() const { return problems_.size() >= most_; }
  std::vector<Problem> Take() && { return std::move(problems_); }

 private:
  size_t most_;
  std::vector<Problem> problems_;
};

struct ModelContext {
  const Model& model;
  Report& report;
  std::unordered_map<std::string, const Function*> functions;  // by FunctionKey
};

std::string FunctionKey(std::string_view domain, std::string_view name, std::string_view overload);

using Producers = std::unordered_map<std::string_view, size_t>;  // which node gives a value

// One graph or function body: which names it has, what it imports, what is around it.
struct GraphContext {
  ModelContext& model;
  std::string where;  // for Place::graph
  const std::vector<OpsetImport>& opsets;
  const GraphContext* outer = nullptr;
  const Function* function = nullptr;  // when inside a function's body
  int depth = 0;
  Scope* scope = nullptr;                      // types
  std::unordered_set<std::string_view> names;  // defined so far
  const Producers* producers = nullptr;        // of this graph's own nodes, later ones too

  bool Knows(std::string_view name) const {
    for (const GraphContext* at = this; at; at = at->outer)
      if (at->names.count(name)) return true;
    return false;
  }
  // The graph, this or one around it, in which some node gives the value.
  const GraphContext* FindProducing(std::string_view name) const {
    for (const GraphContext* at = this; at; at = at->outer)
      if (at->producers && at->producers->count(name)) return at;
    return nullptr;
  }
  Place At(std::string_view value = {}) const { return {.graph = where, .value = std::string(value)}; }
  Place At(const Node& node, std::string_view value = {}) const;
  Report& report() const { return model.report; }
};

// The families, one file each.
void CheckModelRules(ModelContext& context);
void CheckTraining(ModelContext& context);
void CheckFunctions(ModelContext& context);
void CheckGraph(const Graph& graph, GraphContext& context);
void CheckNodes(const std::vector<Node>& nodes, GraphContext& context);
void CheckNode(const Node& node, GraphContext& context);
void CheckNodeTypes(const Node& node, const Schema& schema, GraphContext& context);
void CheckAttributes(const Node& node, const Schema* schema, GraphContext& context);
void CheckBodies(const Node& node, GraphContext& context);
void CheckTensor(const StoredTensor& tensor, const Place& place, Report& report);
void CheckSparseTensor(const StoredSparseTensor& tensor, const Place& place, Report& report);
void CheckOpsets(const std::vector<OpsetImport>& opsets, const Place& place, Report& report);
void CheckMetadata(const Metadata& metadata, std::string_view rule, const Place& place, Report& report);

}  // namespace ferry::checker
