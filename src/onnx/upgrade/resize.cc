#include <algorithm>

#include "base/error.h"
#include "onnx/upgrade/rules.h"

namespace ferry {
namespace {

// Resize and Upsample before opset 11: coordinates are divided by the scale and nothing else.
void MakeAsymmetric(NodeRewrite& r, const std::string& scales, std::string_view nearest_mode) {
  std::string mode = r.node.String("mode", "nearest");
  r.node.op_type = "Resize";
  r.node.Set("mode", std::string(mode == "nearest" ? "nearest" : "linear"));
  r.node.Set("coordinate_transformation_mode", std::string("asymmetric"));
  if (mode == "nearest") r.node.Set("nearest_mode", std::string(nearest_mode));
  r.node.inputs = {r.node.inputs[0], "", scales};
}

void UpgradeUpsample(NodeRewrite& r) {
  Require(r.node.HasInput(0), "needs an input");
  std::string scales;
  if (r.node.HasInput(1)) {
    scales = r.node.inputs[1];
  } else if (r.node.Has("scales")) {
    r.MoveToInput("scales", 1);
    Require(r.node.HasInput(1), "attribute 'scales' is empty");
    scales = r.node.inputs[1];
  } else {
    Require(r.node.Has("height_scale") && r.node.Has("width_scale"), "needs scales");
    std::vector<float> values = {1, 1, r.node.Float("height_scale", 1), r.node.Float("width_scale", 1)};
    scales = r.Constant(Tensor::FromVector(values), "scales");
  }
  for (std::string_view old : {"height_scale", "width_scale"}) r.node.Remove(old);
  MakeAsymmetric(r, scales, "floor");
}

// The text of opset 10 leaves open which neighbour is nearest; its own test cases take the lower one when enlarging and
// the upper one when shrinking. Axes are independent, so that this is two steps: enlarge what grows, shrink the rest.
void UpgradeResize10(NodeRewrite& r) {
  Require(r.node.HasInput(0) && r.node.HasInput(1), "needs inputs X and scales");
  const std::string scales = r.node.inputs[1];
  bool grows = true, shrinks = true;
  if (auto known = r.ConstantOf(scales); known && known->dtype() == DType::kFloat) {
    auto values = known->Span<float>();
    shrinks = std::any_of(values.begin(), values.end(), [](float scale) { return !(scale >= 1); });
    grows = std::any_of(values.begin(), values.end(), [](float scale) { return !(scale <= 1); });
  }
  if (r.node.String("mode", "nearest") != "nearest" || !shrinks) return MakeAsymmetric(r, scales, "floor");
  if (!grows) return MakeAsymmetric(r, scales, "ceil");
  std::string one = r.Constant(Tensor::Scalar(1.0f), "one");
  MakeAsymmetric(r, r.Before("Max", {scales, one}, "enlarging"), "floor");
  Node shrink = r.node;
  std::string output = r.Detour(0);
  shrink.Set("nearest_mode", std::string("ceil"));
  r.After("Resize", {r.node.outputs[0], "", r.Before("Min", {scales, one}, "shrinking")}, output, shrink.attributes);
}

// Scales had to be an empty tensor when sizes were given; now they are left out.
void UpgradeResize11(NodeRewrite& r) {
  if (r.opset >= 11 && r.node.HasInput(3) && r.node.inputs.size() > 2) r.node.inputs[2].clear();
}

void UpgradeGridSample(NodeRewrite& r) {
  std::string mode = r.node.String("mode", "bilinear");
  if (mode == "bilinear") r.node.Set("mode", std::string("linear"));
  if (mode == "bicubic") r.node.Set("mode", std::string("cubic"));
}

void UpgradeRoiAlign(NodeRewrite& r) { r.node.Set("coordinate_transformation_mode", std::string("output_half_pixel")); }

constexpr UpgradeRule kRules[] = {
    {"Upsample", kGone, UpgradeUpsample},  {"Resize", 11, UpgradeResize10},   {"Resize", 13, UpgradeResize11},
    {"GridSample", 20, UpgradeGridSample}, {"RoiAlign", 16, UpgradeRoiAlign},
};

}  // namespace

std::span<const UpgradeRule> ResizeUpgrades() { return kRules; }

}  // namespace ferry
