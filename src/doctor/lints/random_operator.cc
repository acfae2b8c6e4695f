#include "doctor/lint.h"
#include "ops/operator.h"

namespace ferry {
namespace {

void Look(const Patient& patient, FindingList& findings) {
  ForEachNode(patient.model(), [&](const Node& node, const std::string& where) {
    const Operator* op = FindOperator(node.domain, node.op_type);
    if (!op || !op->is_random || node.op_type == "Dropout") return;
    Finding& finding = findings.Add(PlaceOf(node, where), "draws random numbers, so answers differ from run to run");
    if (node.Has("seed")) {
      finding.message = "draws random numbers; with its seed, answers still differ between runtimes";
      finding.evidence.emplace_back("seed", Cat(node.Float("seed", 0)));
    }
  });
}

}  // namespace

extern const Lint lint_random_operator;
constinit const Lint lint_random_operator = {
    .name = "random-operator",
    .meaning = "Nothing in the model is drawn by chance.",
    .remedy = "Export after model.eval(); where the network needs noise, make it an input of the model.",
    .look = Look,
};

}  // namespace ferry
