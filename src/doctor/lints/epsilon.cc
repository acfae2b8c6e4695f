// Numbers that keep a division or logarithm away from 0, and are too small to do so.
#include <cmath>
#include <optional>
#include <unordered_map>

#include "doctor/lint.h"
#include "measure/elements.h"

namespace ferry {
namespace {

constexpr double kFloat16Vanishes = 0x1p-25;  // and below: 0 in float16
constexpr double kFloatVanishes = 0x1p-126;   // below: not a normal number, which many processors take for 0

// "epsilon" of a normalisation; what the opset's default is when it is not written is large enough.
std::optional<double> WrittenEpsilon(const Node& node) {
  if (!IsOneOf(node.op_type, {"BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization",
                              "RMSNormalization", "SkipLayerNormalization", "SimplifiedLayerNormalization"}))
    return std::nullopt;
  if (!node.Has("epsilon")) return std::nullopt;
  return node.Float("epsilon", 0);
}

// The constant of x + c, max(x, c) or clip(x, c, …) in front of an operator that must not see 0.
std::optional<double> GuardOf(const Patient& patient, const Node& node) {
  if (!IsOneOf(node.op_type, {"Add", "Max", "Clip"}) || node.inputs.size() < 2) return std::nullopt;
  for (size_t i = node.op_type == "Clip" ? 1 : 0; i < 2; ++i) {
    const Tensor* constant = node.HasInput(i) ? patient.ConstantOf(node.inputs[i]) : nullptr;
    if (!constant || constant->size() != 1 || !IsFloating(constant->dtype())) continue;
    double number = ToDoubles(*constant)[0];
    if (number > 0 && number < 1e-3) return number;
  }
  return std::nullopt;
}

bool MustNotSeeZero(const Node& node, const std::string& value) {
  if (IsOneOf(node.op_type, {"Sqrt", "Log", "Reciprocal"})) return true;
  return (node.op_type == "Div" && node.HasInput(1) && node.inputs[1] == value) ||
         (node.op_type == "Pow" && node.HasInput(0) && node.inputs[0] == value);
}

class Judge {
 public:
  Judge(const Patient& patient, FindingList& findings) : patient_(patient), findings_(findings) {}

  void Look(const Node& node, double epsilon, DType type, const std::string& guarded) {
    bool is_half = type == DType::kFloat16;
    bool vanishes = epsilon < kFloatVanishes || (is_half && epsilon <= kFloat16Vanishes);
    bool would_vanish = epsilon <= kFloat16Vanishes;
    if (!vanishes && !would_vanish) return;
    Finding& finding = findings_.Add(
        PlaceOf(node), vanishes ? Cat("epsilon is too small: ", guarded, " can divide by 0")
                                : Cat("epsilon becomes 0 in float16: there ", guarded, " can divide by 0"));
    finding.evidence = {{"epsilon", Cat(epsilon)}, {"type", ToText(type)}};
    if (!vanishes) finding.severity = Severity::kNote;
  }

  DType TypeOf(const Node& node) const {
    const Type* type = node.HasInput(0) ? patient_.TypeOf(node.inputs[0]) : nullptr;
    return type ? type->dtype : DType::kFloat;
  }

 private:
  const Patient& patient_;
  FindingList& findings_;
};

void Look(const Patient& patient, FindingList& findings) {
  Judge judge(patient, findings);
  std::unordered_map<std::string, const Node*> guards;
  for (const Node& node : patient.model().graph.nodes) {
    if (!CanonicalDomain(node.domain).empty() && node.domain != "com.microsoft") continue;
    if (std::optional<double> epsilon = WrittenEpsilon(node)) judge.Look(node, *epsilon, judge.TypeOf(node), "it");
    if (GuardOf(patient, node) && node.HasOutput(0)) guards[node.outputs[0]] = &node;
    for (const std::string& input : node.inputs) {
      auto guard = guards.find(input);
      if (guard == guards.end() || !MustNotSeeZero(node, input)) continue;
      judge.Look(*guard->second, *GuardOf(patient, *guard->second), judge.TypeOf(node), Describe(node));
      guards.erase(guard);
    }
  }
}

}  // namespace

extern const Lint lint_epsilon;
constinit const Lint lint_epsilon = {
    .name = "epsilon",
    .meaning = "What keeps divisors and logarithms away from 0 is large enough for its type.",
    .remedy = "Use an epsilon of 1e-5 for float16, 1e-12 or more for float.",
    .look = Look,
};

}  // namespace ferry
