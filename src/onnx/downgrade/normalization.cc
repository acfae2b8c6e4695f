#include "onnx/downgrade/rules.h"

namespace ferry {
namespace {

// Training was told by outputs: all five of them.
void BatchNormByOutputs(NodeRewrite& r) {
  bool training = r.node.Int("training_mode", 0) != 0;
  r.node.Remove("training_mode");
  if (!training) {
    r.node.outputs.resize(1);
    return;
  }
  constexpr const char* kNames[] = {"", "mean", "var", "saved_mean", "saved_var"};
  r.node.outputs.resize(std::size(kNames));
  for (size_t i = 1; i < r.node.outputs.size(); ++i)
    if (r.node.outputs[i].empty()) r.node.outputs[i] = r.Name(kNames[i]);
}

void DropoutByAttribute(NodeRewrite& r) {
  if (r.node.HasInput(2)) {
    auto training = r.ConstantOf(r.node.inputs[2]);
    if (!training || training->dtype() != DType::kBool || training->size() != 1)
      Refuse("whether it trains is computed while running");
    if (*training->Data<bool>()) Refuse("Dropout in training mode cannot be said before opset 12");
  }
  if (r.node.HasInput(1)) {
    auto ratio = r.ConstantOf(r.node.inputs[1]);
    if (ratio && ratio->dtype() == DType::kFloat && ratio->size() == 1) r.node.Set("ratio", *ratio->Data<float>());
  }
  r.node.inputs.resize(1);
  r.node.Remove("seed");
  if (r.opset < 10 && r.node.HasOutput(1)) Refuse("the mask was no bool before opset 10");
}

struct Statistics {
  std::string wide;  // the input in the type that is computed in
  DType type = DType::kUndefined, wide_type = DType::kUndefined;
  std::string axes;
};

// What normalisations over the last axes begin with.
Statistics BeginOverLastAxes(NodeRewrite& r) {
  Statistics s;
  const std::string x = r.node.inputs.at(0);
  s.type = r.TypeOf(x);
  if (!IsFloating(s.type)) Refuse("the type of '", Printable(x), "' is not known");
  s.wide_type = IsSmallFloat(s.type) ? DType::kFloat : s.type;
  s.wide = s.wide_type == s.type ? x : r.Before("Cast", {x}, "wide", {CastTo(s.wide_type)});
  int64_t axis = r.node.Int("axis", -1);
  std::vector<int64_t> axes = {axis};
  if (axis != -1 || r.opset < 11) {
    int64_t rank = static_cast<int64_t>(RankOf(r, x));
    axes.clear();
    for (int64_t i = axis < 0 ? axis + rank : axis; i < rank; ++i) axes.push_back(i);
  }
  s.axes = r.Ints(axes, "axes");
  return s;
}

std::string Epsilon(NodeRewrite& r, const Statistics& s) {
  float epsilon = r.node.Float("epsilon", 1e-5f);
  return s.wide_type == DType::kDouble ? r.Constant(Tensor::Scalar<double>(epsilon), "epsilon")
                                       : r.Constant(Tensor::Scalar(epsilon), "epsilon");
}

std::string Narrow(NodeRewrite& r, const Statistics& s, const std::string& value) {
  return s.type == s.wide_type ? value : r.Before("Cast", {value}, "narrow", {CastTo(s.type)});
}

void WriteOutLayerNormalization(NodeRewrite& r) {
  Statistics s = BeginOverLastAxes(r);
  std::string mean = r.Before("ReduceMean", {s.wide, s.axes}, "mean");
  std::string centred = r.Before("Sub", {s.wide, mean}, "centred");
  std::string variance = r.Before("ReduceMean", {r.Before("Mul", {centred, centred}, "squared"), s.axes}, "variance");
  std::string deviation = r.Before("Sqrt", {r.Before("Add", {variance, Epsilon(r, s)}, "raised")}, "deviation");
  std::string normal = Narrow(r, s, r.Before("Div", {centred, deviation}, "normal"));
  if (r.node.HasOutput(1)) r.After("Identity", {mean}, r.node.outputs[1]);
  if (r.node.HasOutput(2)) r.After("Reciprocal", {deviation}, r.node.outputs[2]);
  if (!r.node.HasInput(2)) return ReplaceBy(r, "Mul", {normal, r.node.inputs.at(1)});
  ReplaceBy(r, "Add", {r.Before("Mul", {normal, r.node.inputs.at(1)}, "scaled"), r.node.inputs[2]});
}

void WriteOutRmsNormalization(NodeRewrite& r) {
  Statistics s = BeginOverLastAxes(r);
  std::string square = r.Before("ReduceMean", {r.Before("Mul", {s.wide, s.wide}, "squared"), s.axes}, "mean_square");
  std::string root = r.Before("Sqrt", {r.Before("Add", {square, Epsilon(r, s)}, "raised")}, "root");
  std::string normal = Narrow(r, s, r.Before("Div", {s.wide, root}, "normal"));
  ReplaceBy(r, "Mul", {normal, r.node.inputs.at(1)});
}

// InstanceNormalization over groups taken as channels, then scale and bias per channel.
void WriteOutGroupNormalization(NodeRewrite& r) {
  const std::string x = r.node.inputs.at(0);
  size_t rank = RankOf(r, x);
  int64_t groups = r.node.Int("num_groups", 1);
  Require(groups > 0 && groups < (1 << 30), "num_groups is ", groups);
  size_t count = static_cast<size_t>(groups);
  std::string grouped = r.Before("Reshape", {x, r.Ints({0, groups, -1}, "by_group")}, "grouped");
  DType type = r.TypeOf(x);
  if (type != DType::kFloat) Refuse("GroupNormalization of ", type, " is written out for float only");
  std::string ones = r.Constant(Tensor::FromVector(std::vector<float>(count, 1.0f)), "ones");
  std::string zeros = r.Constant(Tensor::FromVector(std::vector<float>(count, 0.0f)), "zeros");
  std::string normal = r.Before("InstanceNormalization", {grouped, ones, zeros}, "normal",
                                {Attribute("epsilon", r.node.Float("epsilon", 1e-5f))});
  std::string back = r.Before("Reshape", {normal, r.Before("Shape", {x}, "shape")}, "back");
  std::vector<int64_t> per_channel(rank > 1 ? rank - 1 : 1, 1);
  per_channel[0] = -1;
  std::string column = r.Ints(per_channel, "per_channel");
  std::string scale = r.Before("Reshape", {r.node.inputs.at(1), column}, "scale");
  std::string bias = r.Before("Reshape", {r.node.inputs.at(2), column}, "bias");
  ReplaceBy(r, "Add", {r.Before("Mul", {back, scale}, "scaled"), bias});
}

// Softmax over the last axis means the same in every opset, if the axis is counted from the front before 11.
void SoftmaxOverLastAxis(NodeRewrite& r) {
  const std::string x = r.node.inputs.at(0);
  int64_t axis = r.node.Int("axis", -1);
  if (axis == -1 && r.opset >= 11) return r.node.Set("axis", int64_t{-1});
  int64_t rank = static_cast<int64_t>(RankOf(r, x));
  if (axis < 0) axis += rank;
  r.node.Set("axis", rank - 1);
  if (axis == rank - 1) return;
  std::vector<int64_t> swapped;
  for (int64_t i = 0; i < rank; ++i) swapped.push_back(i == axis ? rank - 1 : i == rank - 1 ? axis : i);
  Attribute perm("perm", swapped);
  r.node.inputs[0] = r.Before("Transpose", {x}, "turned", {perm});
  std::string output = r.Detour(0);
  r.After("Transpose", {r.node.outputs[0]}, output, {perm});
}

constexpr DowngradeRule kRules[] = {
    {"BatchNormalization", 14, BatchNormByOutputs},
    {"Dropout", 12, DropoutByAttribute},
    {"LayerNormalization", 17, WriteOutLayerNormalization},
    {"RMSNormalization", 23, WriteOutRmsNormalization},
    {"GroupNormalization", 21, WriteOutGroupNormalization},
    {"Softmax", 13, SoftmaxOverLastAxis},
    {"LogSoftmax", 13, SoftmaxOverLastAxis},
    {"Hardmax", 13, SoftmaxOverLastAxis},
};

}  // namespace

std::span<const DowngradeRule> NormalizationDowngrades() { return kRules; }

}  // namespace ferry
