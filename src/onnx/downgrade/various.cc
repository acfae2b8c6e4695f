#include <algorithm>

#include "onnx/downgrade/rules.h"

namespace ferry {
namespace {

void ConstantByTensor(NodeRewrite& r) {
  auto set = [&](Tensor tensor, std::string_view old) {
    r.node.Remove(old);
    r.node.Set("value", std::make_shared<StoredTensor>(MakeStored("", std::move(tensor))));
  };
  if (r.node.Has("value_int")) set(Tensor::Scalar(r.node.Int("value_int", 0)), "value_int");
  if (r.node.Has("value_ints")) set(Tensor::FromVector(r.node.Ints("value_ints")), "value_ints");
  if (r.node.Has("value_float")) set(Tensor::Scalar(r.node.Float("value_float", 0)), "value_float");
  if (r.node.Has("value_floats")) set(Tensor::FromVector(r.node.Floats("value_floats")), "value_floats");
  if (r.node.Has("value_string")) set(Tensor::Scalar(r.node.String("value_string", "")), "value_string");
  if (r.node.Has("value_strings")) set(Tensor::FromVector(r.node.Strings("value_strings")), "value_strings");
}

void DropUnitDilations(NodeRewrite& r) {
  std::vector<int64_t> dilations = r.node.Ints("dilations");
  if (std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; }))
    Refuse("dilations of ", r.node.op_type, " cannot be said at opset ", r.opset);
  r.node.Remove("dilations");
}

void DftAxis(NodeRewrite& r) {
  auto axis = ConstantInts(r, 2, "axis");
  int64_t value = axis && axis->size() == 1 ? (*axis)[0] : -2;
  if (value < 0) value += static_cast<int64_t>(RankOf(r, r.node.inputs.at(0)));
  r.node.inputs.resize(std::min<size_t>(r.node.inputs.size(), 2));
  TrimInputs(r.node);
  r.node.Set("axis", value);
}

bool IsPerTensor(const NodeRewrite& r) {
  const SymbolicShape* shape = r.ShapeOf(r.node.inputs.at(1));
  return shape && shape->empty();
}

// Scales per axis came with opset 13: (x - zero_point) · scale, written out.
void DequantizePerAxis(NodeRewrite& r) {
  if (IsPerTensor(r)) return r.node.Remove("axis");
  const std::string x = r.node.inputs.at(0);
  const SymbolicShape* scale_shape = r.ShapeOf(r.node.inputs[1]);
  if (!scale_shape || scale_shape->size() != 1) Refuse("scales of this shape came with opset 21");
  size_t rank = RankOf(r, x);
  std::vector<int64_t> aligned(rank, 1);
  aligned[NormalizeAxis(r.node.Int("axis", 1), rank)] = -1;
  std::string shape = r.Ints(aligned, "aligned");
  std::string wide = r.Before("Cast", {x}, "wide", {CastTo(DType::kFloat)});
  if (r.node.HasInput(2)) {
    std::string zero = r.Before("Cast", {r.node.inputs[2]}, "zero", {CastTo(DType::kFloat)});
    wide = r.Before("Sub", {wide, r.Before("Reshape", {zero, shape}, "zero_aligned")}, "shifted");
  }
  ReplaceBy(r, "Mul", {wide, r.Before("Reshape", {r.node.inputs[1], shape}, "scale_aligned")});
}

void QuantizePerTensor(NodeRewrite& r) {
  if (!IsPerTensor(r)) Refuse("scales per axis came with opset 13");
  r.node.Remove("axis");
}

constexpr DowngradeRule kRules[] = {
    {"Constant", 12, ConstantByTensor},
    {"MaxPool", 10, DropUnitDilations},
    {"AveragePool", 19, DropUnitDilations},
    {"LpPool", 18, DropUnitDilations},
    {"DFT", 20, DftAxis},
    {"DequantizeLinear", 13, DequantizePerAxis},
    {"QuantizeLinear", 13, QuantizePerTensor},
};

}  // namespace

std::span<const DowngradeRule> VariousDowngrades() { return kRules; }

}  // namespace ferry
