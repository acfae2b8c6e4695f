// Numbers that float16 or bfloat16 cannot hold, seen in the weights and while running.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "doctor/lint.h"

namespace ferry {
namespace {

std::string RangeText(const Numbers& numbers) { return Cat(numbers.least, " to ", numbers.largest); }

double Largest(const Numbers& numbers) { return std::max(-numbers.least, numbers.largest); }

bool Overflows(const Numbers& numbers) { return numbers.above_float16 > numbers.masks; }
bool IsMask(const Numbers& numbers) { return numbers.masks > 0; }
// Everything that is not 0 becomes 0.
bool Vanishes(const Numbers& numbers) {
  return numbers.smallest > 0 && numbers.below_float16 > 0 && Largest(numbers) <= 0x1p-25;
}

void Describe(Finding& finding, const Numbers& numbers, const std::string& trial) {
  finding.evidence.emplace_back("range", RangeText(numbers));
  if (!trial.empty()) finding.evidence.emplace_back("inputs", trial);
}

// One finding for a value whose numbers do not fit, or null.
// Of generated inputs only what overflows is worth a warning: real ones may well be larger than they are.
Finding* Judge(const Place& place, const Numbers& numbers, const Trial* run, FindingList& findings) {
  std::string trial = run ? run->name : "";
  if (Overflows(numbers)) {
    Finding& finding = findings.Add(place, "holds numbers that are infinite in float16");
    Describe(finding, numbers, trial);
    finding.evidence.emplace_back("elements", Cat(numbers.above_float16 - numbers.masks, " of ", numbers.count));
    return &finding;
  }
  if (Vanishes(numbers)) {
    Finding& finding = findings.Add(place, Cat("all of it becomes 0 in float16",
                                               numbers.below_bfloat16 == numbers.below_float16 ? " and bfloat16" : ""));
    Describe(finding, numbers, trial);
    if (run && !run->recorded) finding.severity = Severity::kNote;
    return &finding;
  }
  if (IsMask(numbers)) {
    Finding& finding =
        findings.Add(place, "masks with a number that is -infinity in float16: a row masked as a whole is NaN");
    Describe(finding, numbers, trial);
    finding.severity = Severity::kNote;
    return &finding;
  }
  if (numbers.below_float16 * 10 > numbers.count && numbers.count > 0) {
    Finding& finding = findings.Add(place, "more than a tenth of its elements become 0 in float16");
    Describe(finding, numbers, trial);
    finding.evidence.emplace_back("elements", Cat(numbers.below_float16, " of ", numbers.count));
    finding.severity = Severity::kNote;
    return &finding;
  }
  return nullptr;
}

bool IsWide(DType type) { return type == DType::kFloat || type == DType::kDouble; }

// Whether input i is only added to something: a 0 in place of a tiny number then changes next to nothing.
bool IsAdded(const Node& node, size_t i) {
  if (IsStandard(node, "BatchNormalization")) return i == 2 || i == 3;
  if (IsStandard(node, "Add") || IsStandard(node, "Sub")) return true;
  bool has_bias = IsStandard(node, "Conv") || IsStandard(node, "ConvTranspose") || IsStandard(node, "Gemm") ||
                  IsStandard(node, "LayerNormalization") || IsStandard(node, "InstanceNormalization");
  return has_bias && i == 2;
}

// Names of values that some node does more with than to add them.
std::unordered_set<std::string> NotOnlyAdded(const Model& model) {
  std::unordered_set<std::string> names;
  ForEachNode(model, [&](const Node& node, const std::string&) {
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!IsAdded(node, i)) names.insert(node.inputs[i]);
  });
  return names;
}

void LookAtWeights(const Patient& patient, FindingList& findings) {
  const std::unordered_set<std::string> matters = NotOnlyAdded(patient.model());
  for (const StoredTensor& tensor : patient.model().graph.initializers) {
    if (!IsWide(tensor.dtype) || !tensor.tensor.defined()) continue;
    Numbers numbers = Count(tensor.tensor, &patient.pool());
    if (Finding* finding = Judge({.value = tensor.name}, numbers, nullptr, findings))
      if (!Overflows(numbers) && !matters.count(tensor.name)) finding->severity = Severity::kNote;
  }
}

// Only where the trouble begins: a node all of whose inputs were in range.
void LookAtRuns(const Patient& patient, FindingList& findings) {
  std::unordered_set<std::string> told;
  for (const TrialNumbers& run : patient.numbers()) {
    auto is_bad = [&](const std::string& name) {
      auto it = run.values.find(name);
      return it != run.values.end() && (Overflows(it->second) || Vanishes(it->second) || IsMask(it->second));
    };
    for (const Node& node : patient.model().graph.nodes) {
      if (node.op_type == "Constant" || std::any_of(node.inputs.begin(), node.inputs.end(), is_bad)) continue;
      for (const std::string& output : node.outputs) {
        auto it = run.values.find(output);
        const Type* type = patient.TypeOf(output);
        if (it == run.values.end() || !type || !IsWide(type->dtype) || told.count(output)) continue;
        // Generated numbers say little of what is small.
        if (!run.trial->recorded && !Overflows(it->second) && !Vanishes(it->second) && !IsMask(it->second)) continue;
        if (!is_bad(output) && it->second.below_float16 * 10 <= it->second.count) continue;
        told.insert(output);
        Place place = PlaceOf(node);
        place.value = output;
        Judge(place, it->second, run.trial, findings);
      }
    }
  }
}

void Look(const Patient& patient, FindingList& findings) {
  LookAtWeights(patient, findings);
  LookAtRuns(patient, findings);
}

}  // namespace

extern const Lint lint_half_range;
constinit const Lint lint_half_range = {
    .name = "half-range",
    .meaning = "The numbers of the network fit into float16 and bfloat16.",
    .remedy = "Keep these nodes in float when converting to float16, or use bfloat16; or scale the network.",
    .look = Look,
};

}  // namespace ferry
