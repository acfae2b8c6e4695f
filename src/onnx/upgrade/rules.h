// The tables of upgrade rules, one per family of operators.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "onnx/node_rewrite.h"

namespace ferry {

// Applies to nodes whose opset is older than `since`, the version of the operator that the rule leads to.
struct UpgradeRule {
  std::string_view op;
  int64_t since;
  void (*apply)(NodeRewrite&);
  std::string_view domain = "";
};

// The `since` of a rule for an operator that no opset has any longer: it always applies.
inline constexpr int64_t kGone = INT64_MAX;

std::span<const UpgradeRule> ArithmeticUpgrades();
std::span<const UpgradeRule> ControlFlowUpgrades();
std::span<const UpgradeRule> NormalizationUpgrades();
std::span<const UpgradeRule> ReductionUpgrades();
std::span<const UpgradeRule> ResizeUpgrades();
std::span<const UpgradeRule> ShapeUpgrades();
std::span<const UpgradeRule> SoftmaxUpgrades();
std::span<const UpgradeRule> VariousUpgrades();

// For operators that took integers once: an integer input is cast to a float type, and the output back.
void ThroughFloat(NodeRewrite& r);

}  // namespace ferry
