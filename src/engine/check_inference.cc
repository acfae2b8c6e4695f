#include "engine/check_inference.h"

#include <unordered_set>

#include "base/error.h"
#include "onnx/upgrade/upgrade.h"
#include "ops/infer_graph.h"
#include "passes/inline_functions.h"

namespace ferry {
namespace {

class InferenceCheck {
 public:
  explicit InferenceCheck(size_t most) : most_(most) {}

  void Run(const Graph& graph) {
    InferOptions options;
    options.on_error = [&](const Node& node, const Error& error) { AddNode(node, error); };
    GraphFacts facts = InferGraph(graph, {}, options);
    CompareDeclared(graph, facts.values);
    for (const auto& [body, values] : facts.bodies) CompareDeclared(*body, values);
  }

  void Add(std::string_view rule, Place place, std::string message) {
    if (problems_.size() >= most_ || !seen_.insert(Cat(rule, "\n", ToText(place), "\n", message)).second) return;
    const RuleInfo* info = FindRule(rule);
    problems_.push_back({.rule = rule,
                         .severity = info->severity,
                         .message = std::move(message),
                         .place = std::move(place),
                         .remedy = std::string(info->remedy)});
  }

  std::vector<Problem> Take() && { return std::move(problems_); }

 private:
  static Place At(const Node& node) {
    Place place{.node = node.name, .op_type = node.op_type};
    for (const std::string& output : node.outputs)
      if (place.node.empty()) place.node = output;
    return place;
  }

  void AddNode(const Node& node, const Error& error) {
    std::string message = error.message();
    std::string prefix = Cat(Describe(node), ": ");
    if (message.compare(0, prefix.size(), prefix) == 0) message.erase(0, prefix.size());
    Add("inference.node", At(node), std::move(message));
  }

  void CompareDeclared(const Graph& graph, const FactsByName& values) {
    std::unordered_map<std::string_view, const Node*> producers;
    for (const Node& node : graph.nodes)
      for (const std::string& output : node.outputs) producers.emplace(output, &node);
    for (const auto* list : {&graph.value_infos, &graph.outputs}) {
      for (const ValueInfo& declared : *list) {
        auto found = values.find(declared.name);
        if (found == values.end()) continue;
        auto producer = producers.find(declared.name);
        Place place = producer == producers.end() ? Place{} : At(*producer->second);
        place.value = declared.name;
        CompareOne(declared.type, found->second.type, place);
      }
    }
  }

  // A value that may be absent before a loop and is present after it has both an optional type and that of its element.
  static const Type& WithoutOptional(const Type& type) {
    return type.kind == Type::Kind::kOptional && type.element ? *type.element : type;
  }

  void CompareOne(const Type& declared_type, const Type& inferred_type, const Place& place) {
    const Type &declared = WithoutOptional(declared_type), &inferred = WithoutOptional(inferred_type);
    if (!declared.known() || !inferred.known()) return;
    try {
      Merge(declared, inferred);
    } catch (const Error&) {
      bool same_type = SameElementType(declared, inferred);
      Add(same_type ? "inference.shape" : "inference.type", place,
          Cat("is declared as ", declared, ", but its node gives ", inferred));
    }
  }

  size_t most_;
  std::vector<Problem> problems_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

std::vector<Problem> CheckInference(const Model& model, const CheckOptions& options) {
  InferenceCheck check(options.most_problems);
  try {
    Model copy = CopyDeep(model);
    UpgradeToNewest(copy);
    InlineFunctions(copy);
    check.Run(copy.graph);
  } catch (const Error& error) {
    check.Add("inference.stopped", {}, error.message());
  }
  return std::move(check).Take();
}

std::vector<Problem> CheckFully(const Model& model, const CheckOptions& options) {
  std::vector<Problem> problems = CheckModel(model, options);
  if (HasErrors(problems)) return problems;
  std::vector<Problem> more = CheckInference(model, options);
  problems.insert(problems.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return problems;
}

}  // namespace ferry
