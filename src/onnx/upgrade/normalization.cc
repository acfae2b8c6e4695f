#include "base/error.h"
#include "onnx/upgrade/rules.h"

namespace ferry {
namespace {

enum BatchNormInput : size_t { kX = 0, kScale = 1, kBias = 2, kMean = 3, kVar = 4 };
enum BatchNormOutput : size_t { kY = 0, kRunningMean = 1, kRunningVar = 2, kSavedMean = 3, kSavedVar = 4 };

// The statistics of the batch that older versions gave back beside the running ones.
void AddSavedStatistics(NodeRewrite& r, const std::string& x, const std::string& mean_name,
                        const std::string& var_name) {
  if (mean_name.empty() && var_name.empty()) return;
  Attribute drop_dims("keepdims", int64_t{0});
  std::string flat = r.Before("Reshape", {x, r.Ints({0, 0, -1}, "per_channel")}, "channels");
  std::string axes = r.Ints({0, 2}, "axes");
  if (!mean_name.empty()) r.After("ReduceMean", {flat, axes}, mean_name, {drop_dims});
  if (var_name.empty()) return;
  std::string centred = r.Before("Sub", {flat, r.Before("ReduceMean", {flat, axes}, "mean")}, "centred");
  r.After("ReduceMean", {r.Before("Mul", {centred, centred}, "squared"), axes}, var_name, {drop_dims});
}

// Statistics per activation instead of per channel: as if every activation were a channel.
void FlattenActivations(NodeRewrite& r) {
  std::string shape = r.Before("Shape", {r.node.inputs[kX]}, "shape");
  std::string flat = r.Ints({-1}, "flat");
  std::string mean_shape = r.Before("Shape", {r.node.inputs[kMean]}, "mean_shape");
  r.node.inputs[kX] = r.Before("Flatten", {r.node.inputs[kX]}, "rows", {Attribute("axis", int64_t{1})});
  for (size_t i = kScale; i <= kVar; ++i) r.node.inputs[i] = r.Before("Reshape", {r.node.inputs[i], flat}, "flat");
  for (size_t i = kY; i <= kRunningVar && i < r.node.outputs.size(); ++i) {
    if (r.node.outputs[i].empty()) continue;
    std::string output = r.Detour(i);
    r.After("Reshape", {r.node.outputs[i], i == kY ? shape : mean_shape}, output, {Attribute("allowzero", int64_t{1})});
  }
}

// Before opset 14 the number of outputs told training from inference, before 7 with a word from is_test.
void UpgradeBatchNormalization(NodeRewrite& r) {
  Require(r.node.inputs.size() == 5, "needs five inputs");
  bool has_statistics = false;
  for (size_t i = kRunningMean; i < r.node.outputs.size(); ++i) has_statistics |= r.node.HasOutput(i);
  bool is_test = r.opset < 7 && r.node.Int("is_test", 0) != 0;
  if (is_test && has_statistics)
    Fail(ErrorCode::kUnsupported,
         "BatchNormalization has is_test set and outputs for statistics, which are for training");
  bool per_activation = r.opset < 9 && r.node.Int("spatial", 1) == 0;
  std::string saved_mean = r.node.HasOutput(kSavedMean) ? r.node.outputs[kSavedMean] : "";
  std::string saved_var = r.node.HasOutput(kSavedVar) ? r.node.outputs[kSavedVar] : "";
  if (r.node.outputs.size() > kSavedMean) r.node.outputs.resize(kSavedMean);
  for (std::string_view old : {"is_test", "spatial"}) r.node.Remove(old);
  if (per_activation && !(saved_mean.empty() && saved_var.empty()))
    Fail(ErrorCode::kUnsupported, "BatchNormalization with spatial=0 and outputs saved_mean or saved_var");
  if (has_statistics) {
    AddSavedStatistics(r, r.node.inputs[kX], saved_mean, saved_var);
    r.node.Set("training_mode", int64_t{1});
  } else {
    r.node.outputs.resize(1);
  }
  if (per_activation) FlattenActivations(r);
}

// Scale and bias were given per group; now they are given per channel.
void UpgradeGroupNormalization(NodeRewrite& r) {
  Require(r.node.inputs.size() == 3, "needs three inputs");
  auto groups_attribute = r.node.Find("num_groups");
  Require(groups_attribute, "attribute 'num_groups' is missing");
  Attribute groups = *groups_attribute;
  groups.name = "value_int";
  std::string count = r.Before("Constant", {}, "groups", {groups});
  std::string channels =
      r.Before("Shape", {r.node.inputs[0]}, "channels", {Attribute("start", int64_t{1}), Attribute("end", int64_t{2})});
  std::string per_group = r.Before("Div", {channels, count}, "per_group");
  std::string counts = r.Before("Reshape", {count, r.Ints({1}, "one")}, "group_count");
  std::string shape = r.Before("Concat", {counts, per_group}, "shape", {Attribute("axis", int64_t{0})});
  std::string last = r.Ints({1}, "axes"), flat = r.Ints({-1}, "flat");
  for (size_t i : {1, 2}) {
    std::string column = r.Before("Unsqueeze", {r.node.inputs[i], last}, "column");
    r.node.inputs[i] = r.Before("Reshape", {r.Before("Expand", {column, shape}, "expanded"), flat}, "per_channel");
  }
}

// Opsets 1 and 6 drop at random unless is_test is set; 7 and 10 know inference only; from 12 on an input tells.
void UpgradeDropout(NodeRewrite& r) {
  Require(r.node.HasInput(0), "needs an input");
  const std::string data = r.node.inputs[0];
  bool training = r.opset < 7 && r.node.Int("is_test", 0) == 0;
  r.node.Remove("is_test");
  if (auto ratio = r.Take("ratio", "value_float")) r.SetInput(1, r.Before("Constant", {}, "ratio", {*ratio}));
  if (training) r.SetInput(2, r.Constant(Tensor::Scalar(true), "training_mode"));
  bool mask_has_type_of_data = r.opset < 10;
  if (mask_has_type_of_data && r.node.HasOutput(1)) {
    std::string mask = r.Detour(1);
    r.After("CastLike", {r.node.outputs[1], data}, mask);
  }
}

// Before opset 9 it was an experiment with attributes of its own, which ONNX Runtime still reads.
void UpgradeMeanVarianceNormalization(NodeRewrite& r) {
  Require(r.node.HasInput(0), "needs an input");
  bool across = r.node.Int("across_channels", 0) == 1, divides = r.node.Int("normalize_variance", 1) == 1;
  r.node.Remove("across_channels");
  r.node.Remove("normalize_variance");
  std::vector<int64_t> axes = r.node.Ints("axes");
  if (axes.empty()) axes = across ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{0, 2, 3};
  r.node.Set("axes", axes);
  if (divides) return;
  r.node.Remove("axes");
  r.node.op_type = "Sub";
  r.SetInput(1, r.Before("ReduceMean", {r.node.inputs[0], r.Ints(axes, "axes")}, "mean"));
}

constexpr UpgradeRule kRules[] = {
    {"BatchNormalization", 14, UpgradeBatchNormalization},
    {"GroupNormalization", 21, UpgradeGroupNormalization},
    {"Dropout", 12, UpgradeDropout},
    {"MeanVarianceNormalization", 9, UpgradeMeanVarianceNormalization},
};

}  // namespace

std::span<const UpgradeRule> NormalizationUpgrades() { return kRules; }

}  // namespace ferry
