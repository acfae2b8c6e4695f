// Quantisation that cuts numbers off, and scales that cannot be meant.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "doctor/lint.h"
#include "measure/elements.h"

namespace ferry {
namespace {

constexpr double kMostClipped = 0.01;
constexpr double kMostAtTheEnds = 0.1;

// Which inputs of an operator are scales.
std::vector<size_t> ScaleInputs(const Node& node) {
  if (node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear") return {1};
  if (node.op_type == "QLinearConv" || node.op_type == "QLinearMatMul") return {1, 4, 6};
  return {};
}

void LookAtScales(const Patient& patient, const Node& node, const std::string& where, FindingList& findings) {
  for (size_t input : ScaleInputs(node)) {
    const Tensor* scale = node.HasInput(input) ? patient.ConstantOf(node.inputs[input]) : nullptr;
    if (!scale || !IsFloating(scale->dtype())) continue;
    for (double number : ToDoubles(*scale)) {
      if (std::isnormal(number) && number > 0) continue;
      Finding& finding = findings.Add(PlaceOf(node, where), "has a scale that nothing can be quantised with");
      finding.place.value = node.inputs[input];
      finding.evidence.emplace_back("scale", Cat(number));
      break;
    }
  }
}

// Weights of which many lie at the ends of their type were cut off when they were quantised.
void LookAtWeights(const Patient& patient, const Node& node, FindingList& findings) {
  const Tensor* weights =
      node.op_type == "DequantizeLinear" && node.HasInput(0) ? patient.ConstantOf(node.inputs[0]) : nullptr;
  if (!weights || !IsInteger(weights->dtype()) || BitWidth(weights->dtype()) != 8 || weights->size() < 100) return;
  double least = IsSignedInteger(weights->dtype()) ? -128 : 0, most = least + 255;
  std::vector<double> numbers = ToDoubles(*weights);
  auto at_the_ends = std::count_if(numbers.begin(), numbers.end(), [&](double n) { return n == least || n == most; });
  double share = static_cast<double>(at_the_ends) / static_cast<double>(numbers.size());
  if (share <= kMostAtTheEnds) return;
  Finding& finding = findings.Add(PlaceOf(node), "dequantises weights of which many lie at the ends of their range");
  finding.place.value = node.inputs[0];
  finding.evidence.emplace_back("share", Cat(share));
}

void LookAtRuns(const Patient& patient, FindingList& findings) {
  std::unordered_set<std::string> told;
  for (const TrialNumbers& run : patient.numbers())
    for (const Node& node : patient.model().graph.nodes) {
      auto clipped =
          node.op_type == "QuantizeLinear" && node.HasOutput(0) ? run.clipped.find(node.outputs[0]) : run.clipped.end();
      if (clipped == run.clipped.end() || clipped->second <= kMostClipped) continue;
      if (!told.insert(node.outputs[0]).second) continue;
      Finding& finding = findings.Add(PlaceOf(node), "cuts numbers off: its range is too narrow for what reaches it");
      finding.evidence = {{"share", Cat(clipped->second)}, {"inputs", run.trial->name}};
      auto reached = run.values.find(node.inputs[0]);
      if (reached != run.values.end())
        finding.evidence.emplace_back("range", Cat(reached->second.least, " to ", reached->second.largest));
      if (!run.trial->recorded) finding.severity = Severity::kNote;  // made-up inputs may well be out of range
    }
}

void Look(const Patient& patient, FindingList& findings) {
  ForEachNode(patient.model(), [&](const Node& node, const std::string& where) {
    LookAtScales(patient, node, where, findings);
    LookAtWeights(patient, node, findings);
  });
  LookAtRuns(patient, findings);
}

}  // namespace

extern const Lint lint_quantization_range;
constinit const Lint lint_quantization_range = {
    .name = "quantization-range",
    .meaning = "Quantised ranges hold the numbers that reach them.",
    .remedy = "Calibrate again with data like this.",
    .look = Look,
};

}  // namespace ferry
