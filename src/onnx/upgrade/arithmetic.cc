#include "base/error.h"
#include "onnx/upgrade/rules.h"

namespace ferry {
namespace {

// Gives `small` as many trailing dimensions of size 1 as it takes to line its first dimension up with `axis` of `big`.
std::string AlignAt(NodeRewrite& r, const std::string& big, const std::string& small, int64_t axis) {
  std::string shape = r.Before("Shape", {small}, "shape");
  std::string rank = r.Before("Size", {shape}, "rank");
  std::string behind = r.Int(axis < 0 ? -axis : axis, "axis");  // how many dimensions of `big` are at or behind axis
  if (axis >= 0)
    behind = r.Before("Sub", {r.Before("Size", {r.Before("Shape", {big}, "shape")}, "rank"), behind}, "behind");
  std::string missing = r.Before("Sub", {behind, rank}, "missing");
  std::string count = r.Before("Max", {missing, r.Int(0, "zero")}, "count");
  std::string counts = r.Before("Reshape", {count, r.Ints({1}, "one")}, "counts");
  auto one = std::make_shared<StoredTensor>(MakeStored("", Tensor::FromVector<int64_t>({1})));
  std::string ones = r.Before("ConstantOfShape", {counts}, "ones", {Attribute("value", one)});
  std::string aligned = r.Before("Concat", {shape, ones}, "aligned_shape", {Attribute("axis", int64_t{0})});
  return r.Before("Reshape", {small, aligned}, "aligned", {Attribute("allowzero", int64_t{1})});
}

// Before opset 7 the second operand lined up with a run of the first one's dimensions, on request from `axis` on.
void UpgradeBroadcast(NodeRewrite& r) {
  bool broadcast = r.node.Int("broadcast", 0) != 0;
  if (broadcast && r.node.Has("axis")) {
    Require(r.node.HasInput(0) && r.node.HasInput(1), "needs two inputs");
    r.node.inputs[1] = AlignAt(r, r.node.inputs[0], r.node.inputs[1], r.node.Int("axis", 0));
  }
  r.node.Remove("broadcast");
  r.node.Remove("axis");
}

// The slope was one number per channel, wherever the channels lie.
void UpgradePRelu(NodeRewrite& r) {
  constexpr int64_t kChannelAxis = 1;
  Require(r.node.HasInput(0) && r.node.HasInput(1), "needs two inputs");
  r.node.inputs[1] = AlignAt(r, r.node.inputs[0], r.node.inputs[1], kChannelAxis);
}

void UpgradeGemm(NodeRewrite& r) { r.node.Remove("broadcast"); }

void UpgradeClip(NodeRewrite& r) {
  if (r.node.inputs.empty()) return;
  const std::string input = r.node.inputs[0];
  size_t position = 1;
  for (std::string_view bound : {"min", "max"}) {
    const Attribute* attribute = r.node.Find(bound);
    if (attribute && !attribute->ref_name.empty()) {
      std::string value = r.Before("Constant", {}, bound, {*r.Take(bound, "value_float")});
      r.SetInput(position, r.Before("CastLike", {value, input}, bound));
    } else if (attribute) {
      r.SetInput(position, r.FloatLike(r.node.Float(bound, 0), input, bound));
      r.node.Remove(bound);
    }
    ++position;
  }
}

// Types were named, now they are numbered.
void UpgradeCast(NodeRewrite& r) {
  std::string name = r.node.String("to", "");
  std::string lower;
  for (char c : name) lower.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  DType to = DTypeFromName(lower);
  if (to == DType::kUndefined) Fail(ErrorCode::kInvalidModel, "attribute 'to' names no type: '", Printable(name), "'");
  r.node.Set("to", static_cast<int64_t>(to));
}

void UpgradeSelu(NodeRewrite& r) {
  if (!r.node.Has("alpha")) r.node.Set("alpha", 1.6732f);
  if (!r.node.Has("gamma")) r.node.Set("gamma", 1.0507f);
}

// Integers were allowed once: they went through a float and back.
void UpgradeErf(NodeRewrite& r) { ThroughFloat(r); }

constexpr UpgradeRule kRules[] = {
    {"Add", 7, UpgradeBroadcast},  {"Sub", 7, UpgradeBroadcast},     {"Mul", 7, UpgradeBroadcast},
    {"Div", 7, UpgradeBroadcast},  {"Pow", 7, UpgradeBroadcast},     {"And", 7, UpgradeBroadcast},
    {"Or", 7, UpgradeBroadcast},   {"Xor", 7, UpgradeBroadcast},     {"Equal", 7, UpgradeBroadcast},
    {"Less", 7, UpgradeBroadcast}, {"Greater", 7, UpgradeBroadcast}, {"PRelu", 7, UpgradePRelu},
    {"Gemm", 7, UpgradeGemm},      {"Clip", 11, UpgradeClip},        {"Cast", 6, UpgradeCast},
    {"Selu", 6, UpgradeSelu},      {"Erf", 13, UpgradeErf},
};

}  // namespace

void ThroughFloat(NodeRewrite& r) {
  if (!r.node.HasInput(0) || !r.node.HasOutput(0)) return;
  DType type = r.TypeOf(r.node.inputs[0]);
  if (!IsInteger(type)) return;
  DType wide = BitWidth(type) < 32 ? DType::kFloat : DType::kDouble;
  r.node.inputs[0] = r.Before("Cast", {r.node.inputs[0]}, "as_float", {Attribute("to", static_cast<int64_t>(wide))});
  std::string output = r.Detour(0);
  r.After("Cast", {r.node.outputs[0]}, output, {Attribute("to", static_cast<int64_t>(type))});
}

std::span<const UpgradeRule> ArithmeticUpgrades() { return kRules; }

}  // namespace ferry
