#include "measure/finding.h"

#include <algorithm>

#include "onnx/checker/problem_report.h"

namespace ferry {
namespace {

std::string EvidenceText(const Finding& finding) {
  std::string text;
  for (const auto& [name, value] : finding.evidence) text += Cat(text.empty() ? "" : ", ", name, " ", Printable(value));
  return text;
}

}  // namespace

std::string ToText(const Finding& finding) { return ToText(ToProblem(finding)); }

Json ToJson(const Finding& finding) {
  Json json = Json().Set("lint", finding.lint).Set("severity", Name(finding.severity)).Set("message", finding.message);
  const Place& place = finding.place;
  if (!place.graph.empty()) json.Set("graph", place.graph);
  if (!place.node.empty()) json.Set("node", place.node);
  if (!place.op_type.empty()) json.Set("op_type", place.op_type);
  if (!place.value.empty()) json.Set("value", place.value);
  Json evidence = Json::Object{};
  for (const auto& [name, value] : finding.evidence) evidence.Set(name, value);
  return json.Set("evidence", std::move(evidence)).Set("remedy", finding.remedy).Set("fixable", finding.fixable);
}

Problem ToProblem(const Finding& finding) {
  std::string evidence = EvidenceText(finding);
  return {.rule = finding.lint,
          .severity = finding.severity,
          .message = evidence.empty() ? finding.message : Cat(finding.message, " (", evidence, ")"),
          .place = finding.place,
          .remedy = finding.remedy};
}

bool HasFaults(std::span<const Finding> findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity != Severity::kNote; });
}

}  // namespace ferry
