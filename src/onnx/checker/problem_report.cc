#include "onnx/checker/problem_report.h"

#include "base/text.h"

namespace ferry {
namespace {

Json Text(std::string_view text) { return Json().Set("text", text); }

// "body of node 'loop' (Loop)/fc1": the place as one path.
std::string FullName(const Place& place) {
  std::string name;
  for (const std::string& part : {place.graph, place.node, place.value})
    if (!part.empty()) name += Cat(name.empty() ? "" : "/", Printable(part));
  return name;
}

Json Location(const Place& place, std::string_view uri) {
  Json location;
  location.Set("physicalLocation", Json().Set("artifactLocation", Json().Set("uri", uri)));
  std::string name = FullName(place);
  if (!name.empty()) {
    const char* kind = !place.node.empty() ? "function" : "variable";
    location.Set("logicalLocations", Json().Add(Json().Set("fullyQualifiedName", name).Set("kind", kind)));
  }
  return location;
}

}  // namespace

Json ToJson(const Problem& problem) {
  Json json = Json().Set("rule", problem.rule).Set("severity", Name(problem.severity)).Set("message", problem.message);
  const Place& place = problem.place;
  if (!place.graph.empty()) json.Set("graph", place.graph);
  if (!place.node.empty()) json.Set("node", place.node);
  if (!place.op_type.empty()) json.Set("op_type", place.op_type);
  if (!place.value.empty()) json.Set("value", place.value);
  return json.Set("remedy", problem.remedy);
}

Json ToSarif(std::span<const Problem> problems, std::span<const RuleInfo> rules, std::string_view uri,
             std::string_view version) {
  Json rule_list = Json::Array{};
  for (const RuleInfo& rule : rules) {
    Json entry = Json().Set("id", rule.id).Set("shortDescription", Text(rule.meaning)).Set("help", Text(rule.remedy));
    rule_list.Add(entry.Set("defaultConfiguration", Json().Set("level", Name(rule.severity))));
  }
  Json driver = Json().Set("name", "ferry").Set("version", version).Set("rules", std::move(rule_list));
  Json results = Json::Array{};
  for (const Problem& problem : problems) {
    Json result = Json().Set("ruleId", problem.rule).Set("level", Name(problem.severity));
    result.Set("message", Text(Cat(problem.message, ". ", problem.remedy)));
    results.Add(result.Set("locations", Json().Add(Location(problem.place, uri))));
  }
  Json run = Json().Set("tool", Json().Set("driver", std::move(driver))).Set("results", std::move(results));
  return Json()
      .Set("$schema", "https://json.schemastore.org/sarif-2.1.0.json")
      .Set("version", "2.1.0")
      .Set("runs", Json().Add(std::move(run)));
}

}  // namespace ferry
