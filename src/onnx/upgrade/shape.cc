#include <numeric>

#include "base/error.h"
#include "onnx/upgrade/rules.h"

namespace ferry {
namespace {

Attribute ToInt64() { return Attribute("to", static_cast<int64_t>(DType::kInt64)); }

void UpgradeConcat(NodeRewrite& r) {
  if (!r.node.Has("axis")) r.node.Set("axis", int64_t{1});
}

void UpgradeReshape(NodeRewrite& r) {
  if (!r.MoveToInput("shape", 1)) r.SetInput(1, r.Ints({}, "shape"));
}

// One count along one axis became a count per axis.
void UpgradeTile(NodeRewrite& r) {
  Require(r.node.HasInput(0) && r.node.HasInput(1) && r.node.HasInput(2), "needs three inputs");
  std::string one = r.Ints({1}, "one");
  auto as_index = [&](const std::string& value, std::string_view what) {
    return r.Before("Reshape", {r.Before("Cast", {value}, what, {ToInt64()}), one}, what);
  };
  std::string tiles = as_index(r.node.inputs[1], "tiles"), axis = as_index(r.node.inputs[2], "axis");
  std::string rank = r.Before("Shape", {r.Before("Shape", {r.node.inputs[0]}, "shape")}, "rank");
  auto value = std::make_shared<StoredTensor>(MakeStored("", Tensor::FromVector<int64_t>({1})));
  std::string ones = r.Before("ConstantOfShape", {rank}, "ones", {Attribute("value", value)});
  std::string repeats = r.Before("ScatterElements", {ones, axis, tiles}, "repeats");
  r.node.inputs = {r.node.inputs[0], repeats};
}

void UpgradeSlice(NodeRewrite& r) {
  int64_t count = static_cast<int64_t>(r.node.Ints("starts").size());
  bool has_axes = r.node.Has("axes");
  Require(r.node.Has("starts") && r.node.Has("ends"), "needs attributes 'starts' and 'ends'");
  if (!r.MoveToInput("starts", 1)) r.SetInput(1, r.Ints({}, "starts"));
  if (!r.MoveToInput("ends", 2)) r.SetInput(2, r.Ints({}, "ends"));
  if (has_axes && r.MoveToInput("axes", 3)) return;
  std::vector<int64_t> axes(static_cast<size_t>(count));
  std::iota(axes.begin(), axes.end(), 0);
  r.SetInput(3, r.Ints(axes, "axes"));
}

void UpgradePad(NodeRewrite& r) {
  Require(r.node.HasInput(0), "needs an input");
  if (r.opset < 2) {
    if (auto paddings = r.Take("paddings", "pads")) r.node.attributes.push_back(*paddings);
  }
  if (!r.MoveToInput("pads", 1)) r.SetInput(1, r.Ints({}, "pads"));
  const Attribute* value = r.node.Find("value");
  if (!value) return;
  if (!value->ref_name.empty()) {
    std::string constant = r.Before("Constant", {}, "value", {*r.Take("value", "value_float")});
    r.SetInput(2, r.Before("CastLike", {constant, r.node.inputs[0]}, "value"));
    return;
  }
  float number = r.node.Float("value", 0);
  r.node.Remove("value");
  if (number != 0) r.SetInput(2, r.FloatLike(number, r.node.inputs[0], "value"));
}

void MoveAxes(NodeRewrite& r) { r.MoveToInput("axes", 1); }

void UpgradeUnsqueeze(NodeRewrite& r) {
  if (!r.MoveToInput("axes", 1)) r.SetInput(1, r.Ints({}, "axes"));
}

// The first version could take the lengths from an input, which then had the type of the data.
void UpgradeSplitInput(NodeRewrite& r) {
  if (!r.node.Has("axis")) r.node.Set("axis", int64_t{0});
  if (r.node.HasInput(1)) r.node.inputs[1] = r.Before("Cast", {r.node.inputs[1]}, "split", {ToInt64()});
}

void UpgradeSplitAttribute(NodeRewrite& r) { r.MoveToInput("split", 1); }

void UpgradeSplitCount(NodeRewrite& r) {
  if (r.node.HasInput(1)) return;
  r.node.inputs.resize(1);
  r.node.Set("num_outputs", static_cast<int64_t>(r.node.outputs.size()));
}

void UpgradeTopK(NodeRewrite& r) {
  const Attribute* k = r.node.Find("k");
  Require(k, "attribute 'k' is missing");
  if (!k->ref_name.empty()) {
    std::string scalar = r.Before("Constant", {}, "k", {*r.Take("k", "value_int")});
    r.SetInput(1, r.Before("Reshape", {scalar, r.Ints({1}, "one")}, "k"));
    return;
  }
  r.SetInput(1, r.Ints({r.node.Int("k", 0)}, "k"));
  r.node.Remove("k");
}

// A negative index was outside the range and gave 'off' everywhere; now it would count from the end. `depth` itself is
// outside in both.
void UpgradeOneHot(NodeRewrite& r) {
  Require(r.node.HasInput(0) && r.node.HasInput(1), "needs inputs for indices and depth");
  DType type = r.TypeOf(r.node.inputs[0]);
  if (IsInteger(type) && !IsSignedInteger(type)) return;
  std::string indices = r.Before("Cast", {r.node.inputs[0]}, "indices", {ToInt64()});
  std::string depth = r.Before("Cast", {r.node.inputs[1]}, "depth", {ToInt64()});
  std::string outside = r.Before("Reshape", {depth, r.Ints({}, "scalar")}, "outside");
  std::string negative = r.Before("Less", {indices, r.Int(0, "zero")}, "negative");
  r.node.inputs[0] = r.Before("Where", {negative, outside, indices}, "checked");
}

void UpgradeScatter(NodeRewrite& r) { r.node.op_type = "ScatterElements"; }

constexpr UpgradeRule kRules[] = {
    {"Concat", 4, UpgradeConcat},        {"Reshape", 5, UpgradeReshape},  {"Tile", 6, UpgradeTile},
    {"Slice", 10, UpgradeSlice},         {"Pad", 11, UpgradePad},         {"Squeeze", 13, MoveAxes},
    {"Unsqueeze", 13, UpgradeUnsqueeze}, {"Split", 2, UpgradeSplitInput}, {"Split", 13, UpgradeSplitAttribute},
    {"Split", 18, UpgradeSplitCount},    {"TopK", 10, UpgradeTopK},       {"OneHot", 11, UpgradeOneHot},
    {"Scatter", kGone, UpgradeScatter},
};

}  // namespace

std::span<const UpgradeRule> ShapeUpgrades() { return kRules; }

}  // namespace ferry
