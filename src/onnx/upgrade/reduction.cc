#include "onnx/upgrade/rules.h"

namespace ferry {
namespace {

void MoveAxes(NodeRewrite& r) { r.MoveToInput("axes", 1); }

constexpr UpgradeRule kRules[] = {
    {"ReduceSum", 13, MoveAxes},       {"ReduceL1", 18, MoveAxes},         {"ReduceL2", 18, MoveAxes},
    {"ReduceMax", 18, MoveAxes},       {"ReduceMean", 18, MoveAxes},       {"ReduceMin", 18, MoveAxes},
    {"ReduceProd", 18, MoveAxes},      {"ReduceSumSquare", 18, MoveAxes},  {"ReduceLogSum", 18, MoveAxes},
    {"ReduceLogSumExp", 18, MoveAxes}, {"ReduceLogSum", 28, ThroughFloat}, {"ReduceLogSumExp", 28, ThroughFloat},
};

}  // namespace

std::span<const UpgradeRule> ReductionUpgrades() { return kRules; }

}  // namespace ferry
