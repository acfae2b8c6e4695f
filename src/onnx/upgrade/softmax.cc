#include "base/error.h"
#include "onnx/upgrade/rules.h"

namespace ferry {
namespace {

// Before opset 13 the input was taken as a matrix, cut in two at `axis`, and each row was one distribution.
void UpgradeCoerced(NodeRewrite& r) {
  Require(r.node.HasInput(0) && r.node.HasOutput(0), "needs an input and an output");
  const Attribute* given = r.node.Find("axis");
  bool is_last = given && given->ref_name.empty() && r.node.Int("axis", 1) == -1;
  auto axis = r.Take("axis", "axis");
  r.node.Set("axis", int64_t{-1});
  if (is_last) return;
  const std::string input = r.node.inputs[0];
  std::string shape = r.Before("Shape", {input}, "shape");
  r.node.inputs[0] = r.Before("Flatten", {input}, "rows", {axis ? *axis : Attribute("axis", int64_t{1})});
  std::string output = r.Detour(0);
  r.After("Reshape", {r.node.outputs[0], shape}, output, {Attribute("allowzero", int64_t{1})});
}

constexpr UpgradeRule kRules[] = {
    {"Softmax", 13, UpgradeCoerced},
    {"LogSoftmax", 13, UpgradeCoerced},
    {"Hardmax", 13, UpgradeCoerced},
};

}  // namespace

std::span<const UpgradeRule> SoftmaxUpgrades() { return kRules; }

}  // namespace ferry
