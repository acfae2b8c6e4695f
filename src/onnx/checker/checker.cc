#include "onnx/checker/checker.h"

#include <algorithm>

#include "base/text.h"
#include "onnx/checker/context.h"

namespace ferry {

const char* Name(Severity severity) {
  static constexpr const char* kNames[] = {"note", "warning", "error"};
  return kNames[static_cast<size_t>(severity)];
}

std::string ToText(const Place& place) {
  std::string out;
  auto add = [&](const std::string& part) {
    if (!out.empty()) out += ", ";
    out += part;
  };
  if (!place.graph.empty()) add(Printable(place.graph));
  if (!place.op_type.empty() || !place.node.empty()) {
    std::string op = place.op_type.empty() ? "" : Cat(" (", Printable(place.op_type), ")");
    add(place.node.empty() ? Cat("a nameless node", op) : Cat("node '", Printable(place.node), "'", op));
  }
  if (!place.value.empty()) add(Cat("'", Printable(place.value), "'"));
  return out;
}

std::string ToText(const Problem& problem) {
  std::string place = ToText(problem.place);
  return Cat(Name(problem.severity), ": ", place, place.empty() ? "" : ": ", problem.message, " [", problem.rule, "]");
}

bool HasErrors(std::span<const Problem> problems) {
  return std::any_of(problems.begin(), problems.end(), [](const Problem& p) { return p.severity == Severity::kError; });
}

std::vector<Problem> CheckModel(const Model& model, const CheckOptions& options) {
  using namespace checker;
  Report report(options.most_problems);
  ModelContext context{.model = model, .report = report};
  for (const Function& function : model.functions)
    context.functions.emplace(FunctionKey(function.domain, function.name, function.overload), &function);
  CheckModelRules(context);
  if (model.has_graph) {
    Scope scope(model.graph.nodes, model.opsets, nullptr);
    GraphContext main{.model = context, .opsets = model.opsets, .scope = &scope};
    CheckGraph(model.graph, main);
    CheckTraining(context);
  }
  CheckFunctions(context);
  return std::move(report).Take();
}

namespace checker {

void Report::Add(std::string_view rule, Place place, std::string message, std::string remedy) {
  if (problems_.size() >= most_) return;
  if (problems_.size() + 1 == most_) {
    rule = "check.too-many";
    message = Cat("there are ", most_, " problems or more; the rest is not listed");
    place = {};
  }
  const RuleInfo* info = FindRule(rule);
  Problem problem;
  problem.rule = rule;
  problem.severity = info ? info->severity : Severity::kError;
  problem.message = std::move(message);
  problem.place = std::move(place);
  problem.remedy = remedy.empty() && info ? std::string(info->remedy) : std::move(remedy);
  problems_.push_back(std::move(problem));
}

std::string FunctionKey(std::string_view domain, std::string_view name, std::string_view overload) {
  return Cat(CanonicalDomain(domain), "\n", name, "\n", overload);
}

Place GraphContext::At(const Node& node, std::string_view value) const {
  Place place{.graph = where, .node = node.name, .op_type = node.op_type, .value = std::string(value)};
  for (const std::string& output : node.outputs)
    if (place.node.empty()) place.node = output;
  return place;
}

}  // namespace checker
}  // namespace ferry
