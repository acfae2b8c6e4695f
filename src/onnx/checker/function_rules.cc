// A model's own functions.
#include <algorithm>

#include "base/text.h"
#include "onnx/checker/context.h"
#include "onnx/schema.h"

namespace ferry::checker {
namespace {

void CheckDistinct(const std::vector<std::string>& names, std::string_view rule, const char* what, const Place& place,
                   Report& report) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : names) {
    if (seen.insert(name).second) continue;
    Place at = place;
    at.value = name;
    report.Add(rule, at, Cat("is ", what, " of the function twice"));
  }
}

// Operators may have another meaning at the function's opset than at the model's; the standard wants them to be the
// same.
void CheckOpsetsAgree(const std::vector<Node>& nodes, const Function& function, GraphContext& context) {
  for (const Node& node : nodes) {
    int64_t mine = OpsetOf(function.opsets, node.domain), models = OpsetOf(context.model.model.opsets, node.domain);
    if (mine != 0 && models != 0 && mine != models) {
      const Schema* here = FindSchema(node.domain, node.op_type, mine);
      const Schema* there = FindSchema(node.domain, node.op_type, models);
      if (here != there)
        context.report().Add("function.opset", context.At(node),
                             Cat(node.op_type, " has another version at the function's opset ", mine,
                                 " than at the model's opset ", models));
    }
    ForEachSubgraph(node, [&](const Graph& body) { CheckOpsetsAgree(body.nodes, function, context); });
  }
}

void CheckFunction(const Function& function, ModelContext& model) {
  Report& report = model.report;
  Scope scope(function.nodes, function.opsets, nullptr);
  scope.Declare(function.value_infos);
  GraphContext context{.model = model,
                       .where = Cat("function '", Printable(function.name), "'"),
                       .opsets = function.opsets,
                       .function = &function,
                       .scope = &scope};
  Place place = context.At();
  if (function.name.empty()) report.Add("function.name-missing", place, "a function has no name");
  if (function.domain.empty() && model.model.ir_version >= 8)
    report.Add("function.domain-missing", place, "the function has no domain");
  CheckOpsets(function.opsets, place, report);
  CheckDistinct(function.inputs, "function.input-duplicate", "an input", place, report);
  CheckDistinct(function.outputs, "function.output-duplicate", "an output", place, report);
  std::vector<std::string> attributes = function.attributes;
  for (const Attribute& with_default : function.attribute_defaults) attributes.push_back(with_default.name);
  CheckDistinct(attributes, "function.attribute-duplicate", "an attribute", place, report);
  context.names.insert(function.inputs.begin(), function.inputs.end());
  CheckNodes(function.nodes, context);
  CheckOpsetsAgree(function.nodes, function, context);
  for (const std::string& output : function.outputs)
    if (!context.names.count(output))
      report.Add("function.output-undefined", context.At(output),
                 "is an output of the function, but nothing in it gives it");
}

void GatherCalls(const std::vector<Node>& nodes, const ModelContext& model, std::vector<const Function*>& calls) {
  for (const Node& node : nodes) {
    auto it = model.functions.find(FunctionKey(node.domain, node.op_type, node.overload));
    if (it != model.functions.end()) calls.push_back(it->second);
    ForEachSubgraph(node, [&](const Graph& body) { GatherCalls(body.nodes, model, calls); });
  }
}

// Depth-first along calls, without recursion; a call of a function that is on the way is a cycle.
void CheckRecursion(ModelContext& model) {
  enum State : uint8_t { kNew, kOnTheWay, kDone };
  std::unordered_map<const Function*, State> states;
  struct Frame {
    const Function* function;
    std::vector<const Function*> calls;
    size_t next = 0;
  };
  auto enter = [&](std::vector<Frame>& path, const Function* function) {
    states[function] = kOnTheWay;
    path.push_back({function, {}});
    GatherCalls(function->nodes, model, path.back().calls);
  };
  for (const Function& root : model.model.functions) {
    if (states[&root] != kNew) continue;
    std::vector<Frame> path;
    enter(path, &root);
    while (!path.empty()) {
      Frame& frame = path.back();
      if (frame.next == frame.calls.size()) {
        states[frame.function] = kDone;
        path.pop_back();
        continue;
      }
      const Function* called = frame.calls[frame.next++];
      if (states[called] == kOnTheWay)
        model.report.Add("function.recursion", {.graph = Cat("function '", Printable(frame.function->name), "'")},
                         Cat("calls '", Printable(called->name), "', which calls it again"));
      else if (states[called] == kNew)
        enter(path, called);
    }
  }
}

}  // namespace

void CheckFunctions(ModelContext& model) {
  const std::vector<Function>& functions = model.model.functions;
  if (functions.empty()) return;
  bool has_overloads =
      std::any_of(functions.begin(), functions.end(), [](const Function& f) { return !f.overload.empty(); });
  int64_t ir_version = model.model.ir_version;
  if (ir_version > 0 && (ir_version < 8 || (has_overloads && ir_version < 10)))
    model.report.Add(
        "function.ir-version", {},
        Cat("the model has functions", has_overloads ? " with overloads" : "", " at IR version ", ir_version));
  std::unordered_set<std::string> keys;
  for (const Function& function : functions) {
    if (!keys.insert(FunctionKey(function.domain, function.name, function.overload)).second)
      model.report.Add("function.duplicate", {.graph = Cat("function '", Printable(function.name), "'")},
                       "the function exists twice");
    CheckFunction(function, model);
  }
  CheckRecursion(model);
}

}  // namespace ferry::checker
