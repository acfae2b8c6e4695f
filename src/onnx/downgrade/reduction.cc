#include "onnx/downgrade/rules.h"

namespace ferry {
namespace {

// Axes counted from the back came with opset 11.
void CountFromFront(NodeRewrite& r, std::vector<int64_t>& axes) {
  for (int64_t& axis : axes)
    if (axis < 0 && r.opset < 11) axis += static_cast<int64_t>(RankOf(r, r.node.inputs.at(0)));
}

void AxesByAttribute(NodeRewrite& r) {
  auto axes = ConstantInts(r, 1, "axes");
  bool nothing = r.node.Int("noop_with_empty_axes", 0) != 0 && (!axes || axes->empty());
  if (nothing) Refuse("noop_with_empty_axes without axes cannot be said at opset ", r.opset);
  r.node.Remove("noop_with_empty_axes");
  r.node.inputs.resize(1);
  if (!axes || axes->empty()) return;
  CountFromFront(r, *axes);
  r.node.Set("axes", std::move(*axes));
}

void ArgAxisFromFront(NodeRewrite& r) {
  std::vector<int64_t> axis = {r.node.Int("axis", 0)};
  CountFromFront(r, axis);
  r.node.Set("axis", axis[0]);
}

constexpr DowngradeRule kRules[] = {
    {"ReduceSum", 13, AxesByAttribute},    {"ReduceL1", 18, AxesByAttribute},
    {"ReduceL2", 18, AxesByAttribute},     {"ReduceMax", 18, AxesByAttribute},
    {"ReduceMean", 18, AxesByAttribute},   {"ReduceMin", 18, AxesByAttribute},
    {"ReduceProd", 18, AxesByAttribute},   {"ReduceSumSquare", 18, AxesByAttribute},
    {"ReduceLogSum", 18, AxesByAttribute}, {"ReduceLogSumExp", 18, AxesByAttribute},
    {"ArgMax", 11, ArgAxisFromFront},      {"ArgMin", 11, ArgAxisFromFront},
};

}  // namespace

std::span<const DowngradeRule> ReductionDowngrades() { return kRules; }

}  // namespace ferry
