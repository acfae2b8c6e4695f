// Nodes that make NaN or infinity out of finite numbers, and those that come close.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "doctor/lint.h"

namespace ferry {
namespace {

constexpr double kExpNearlyOverflows = 80;  // exp of 88.7 is infinite in float

class RunReader {
 public:
  RunReader(const Patient& patient, const TrialNumbers& run) : patient_(patient), run_(run) {}

  // Numbers of anything a node reads: values of the run, or constants. Null when it is not floating-point.
  const Numbers* Of(const std::string& name) {
    if (auto it = run_.values.find(name); it != run_.values.end()) return &it->second;
    if (auto it = constants_.find(name); it != constants_.end()) return &it->second;
    const Tensor* constant = name.empty() ? nullptr : patient_.ConstantOf(name);
    if (!constant || !IsFloating(constant->dtype())) return nullptr;
    return &constants_.emplace(name, Count(*constant, &patient_.pool())).first->second;
  }

 private:
  const Patient& patient_;
  const TrialNumbers& run_;
  std::unordered_map<std::string, Numbers> constants_;
};

std::string RangeOf(const Numbers& numbers) {
  const int64_t finite = numbers.count - numbers.nans - numbers.infinities;
  std::string text = finite > 0 ? Cat(numbers.least, " to ", numbers.largest) : "";
  auto add = [&](int64_t count, const char* what) {
    if (count > 0)
      text += Cat(text.empty() ? "" : " and ", count == numbers.count ? "all " : Cat(count, " times "), what);
  };
  add(numbers.infinities, "infinite");
  add(numbers.nans, "NaN");
  return text;
}

std::string WhyOf(const Node& node) {
  if (node.op_type == "Exp") return "the exponent is too large for its type";
  if (node.op_type == "Log") return "the logarithm of 0 or of a negative number";
  if (node.op_type == "Div" || node.op_type == "Reciprocal") return "a division by 0, or by too small a number";
  if (node.op_type == "Sqrt") return "the square root of a negative number";
  if (node.op_type == "Pow") return "a power that has no finite value";
  if (node.op_type == "Softmax" || node.op_type == "LogSoftmax") return "a row in which everything is masked";
  return "the result does not fit into its type";
}

void LookAt(const Patient& patient, const TrialNumbers& run, std::unordered_set<std::string>& told,
            FindingList& findings) {
  RunReader reader(patient, run);
  for (const Node& node : patient.model().graph.nodes) {
    int64_t nans = 0, infinities = 0;
    for (const std::string& output : node.outputs)
      if (auto it = run.values.find(output); it != run.values.end())
        nans += it->second.nans, infinities += it->second.infinities;
    if (nans + infinities == 0) continue;
    int64_t nans_in = 0, infinities_in = 0;
    std::string ranges;
    for (const std::string& input : node.inputs)
      if (const Numbers* numbers = reader.Of(input)) {
        nans_in += numbers->nans;
        infinities_in += numbers->infinities;
        ranges += Cat(ranges.empty() ? "" : "; ", Printable(input, 60), ": ", RangeOf(*numbers));
      }
    bool makes_nan = nans > 0 && nans_in == 0;
    bool makes_infinity = infinities > 0 && infinities_in == 0 && nans_in == 0 && node.op_type != "Constant";
    if ((!makes_nan && !makes_infinity) || !told.insert(PlaceOf(node).node).second) continue;
    Finding& finding = findings.Add(PlaceOf(node), Cat("gives ", makes_nan ? "NaN" : "infinity", ": ", WhyOf(node)));
    finding.evidence = {
        {"inputs", run.trial->name}, {"elements", Cat(makes_nan ? nans : infinities)}, {"ranges", ranges}};
    if (run.trial->recorded) finding.severity = Severity::kError;
  }
}

void LookForNarrowEscapes(const Patient& patient, const TrialNumbers& run, std::unordered_set<std::string>& told,
                          FindingList& findings) {
  for (const Node& node : patient.model().graph.nodes) {
    auto numbers = node.op_type == "Exp" && node.HasInput(0) ? run.values.find(node.inputs[0]) : run.values.end();
    if (numbers == run.values.end() || numbers->second.largest < kExpNearlyOverflows) continue;
    if (!told.insert(PlaceOf(node).node).second) continue;
    Finding& finding = findings.Add(PlaceOf(node), "comes close to infinity: exp of 88.7 is infinite in float");
    finding.evidence = {{"inputs", run.trial->name}, {"largest", Cat(numbers->second.largest)}};
    finding.severity = Severity::kNote;
  }
}

void Look(const Patient& patient, FindingList& findings) {
  std::unordered_set<std::string> told;
  for (const TrialNumbers& run : patient.numbers()) LookAt(patient, run, told, findings);
  for (const TrialNumbers& run : patient.numbers()) LookForNarrowEscapes(patient, run, told, findings);
}

}  // namespace

extern const Lint lint_not_finite;
constinit const Lint lint_not_finite = {
    .name = "not-finite",
    .meaning = "No node makes NaN or infinity out of the numbers that reach it.",
    .remedy = "Bound what reaches the node: clip it, add an epsilon, or subtract the maximum before an exponential.",
    .look = Look,
};

}  // namespace ferry
