#include <map>

#include "doctor/lint.h"
#include "ops/operator.h"

namespace ferry {
namespace {

constexpr std::string_view kInBlocks = "com.microsoft.nchwc";

struct Found {
  Place first;
  int64_t nodes = 0;
};

void Look(const Patient& patient, FindingList& findings) {
  std::map<std::string, Found> operators;
  ForEachNode(patient.model(), [&](const Node& node, const std::string& where) {
    if (node.domain != kMicrosoftDomain && node.domain != kInBlocks) return;
    for (const Function& function : patient.model().functions)
      if (function.domain == node.domain && function.name == node.op_type) return;  // the model says what it is
    Found& found = operators[Cat(node.domain, ".", node.op_type)];
    if (found.nodes++ == 0) found.first = PlaceOf(node, where);
  });
  for (const auto& [name, found] : operators) {
    const bool in_blocks = name.rfind(kInBlocks, 0) == 0,
               runs = !in_blocks && !FindOperator(kMicrosoftDomain, name.substr(kMicrosoftDomain.size() + 1));
    Finding& finding = findings.Add(found.first, Cat("only ONNX Runtime ", runs ? "runs " : "and Ferry run ", name));
    finding.evidence.emplace_back("nodes", Cat(found.nodes));
    if (!in_blocks) continue;
    finding.message += ", and only on processors like the one where the file was made";
    finding.severity = Severity::kWarning;
    finding.remedy =
        "Optimise at level 'extended' for other machines, or write it again with 'ferry convert --standard'.";
  }
}

}  // namespace

extern const Lint lint_contributed_operator;
constinit const Lint lint_contributed_operator = {
    .name = "contributed-operator",
    .meaning = "Every operator is the standard's, not one that ONNX Runtime contributes.",
    .severity = Severity::kNote,
    .remedy =
        "For other runtimes, 'ferry convert --standard' writes what the standard has words for, and names the rest.",
    .look = Look,
};

}  // namespace ferry
