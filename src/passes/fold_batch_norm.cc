#include "passes/fold_batch_norm.h"

#include "passes/batch_norm_pattern.h"
#include "passes/match.h"
#include "tensor/alignment.h"
#include "tensor/scale.h"
#include "tensor/scratch.h"

namespace ferry {
namespace {

// Which axis of the weights counts output channels; -1 when the node is none that can take a factor.
int FeatureAxis(const Node& node) {
  if (!CanonicalDomain(node.domain).empty()) return -1;
  if (node.op_type == "Conv") return 0;
  if (node.op_type == "ConvTranspose") return node.Int("group", 1) == 1 ? 1 : -1;
  bool plain = node.op_type == "Gemm" && node.Float("alpha", 1.0f) == 1.0f && node.Float("beta", 1.0f) == 1.0f;
  return !plain ? -1 : node.Int("transB", 0) ? 0 : 1;
}

Tensor Scaled(const Tensor& stored, size_t axis, const std::vector<double>& factor, size_t smallest_file) {
  const Tensor weight = Readable(stored);
  ScratchTensor scaled(DType::kFloat, weight.shape(), smallest_file);
  int64_t inner = weight.shape().CountBetween(axis + 1, weight.rank()), channels = weight.dim(axis);
  std::vector<float> run(static_cast<size_t>(inner));
  for (int64_t begin = 0; begin < weight.size(); begin += inner) {
    const float* from = weight.Data<float>() + begin;
    double scale = factor[static_cast<size_t>(begin / inner % channels)];
    ScaleFloats(from, run.size(), scale, run.data());
    scaled.Append(run.data(), run.size() * sizeof(float));
  }
  return scaled.Finish();
}

std::string Store(GraphEditor& editor, const std::string& name, Tensor tensor, bool keep_name) {
  if (!keep_name || editor.Uses(name) > 1) return editor.AddConstant(name + "_normalized", std::move(tensor));
  for (StoredTensor& stored : editor.graph().initializers)
    if (stored.name == name) stored = MakeStored(name, std::move(tensor));
  return name;
}

// "conv.bias" for "conv.weight".
std::string BiasName(const std::string& weight) {
  constexpr std::string_view kWeight = "weight";
  if (!weight.ends_with(kWeight)) return weight + "_bias";
  return weight.substr(0, weight.size() - kWeight.size()) + "bias";
}

bool Fold(GraphEditor& editor, size_t index, bool keep_names) {
  const Node& node = editor.node(index);
  int axis = FeatureAxis(node);
  if (axis < 0 || node.inputs.size() < 2 || node.outputs.size() != 1) return false;
  int reader = editor.OnlyReader(node.outputs[0]);
  if (reader < 0 || editor.node(static_cast<size_t>(reader)).inputs[0] != node.outputs[0]) return false;
  std::optional<ChannelAffine> norm = MatchBatchNorm(editor, editor.node(static_cast<size_t>(reader)));
  const Tensor* weight = editor.Constant(node.inputs[1]);
  if (!norm || !weight || weight->dtype() != DType::kFloat || weight->rank() <= static_cast<size_t>(axis)) return false;
  size_t channels = norm->factor.size();
  if (weight->dim(static_cast<size_t>(axis)) != static_cast<int64_t>(channels)) return false;
  const Tensor* bias = node.HasInput(2) ? editor.Constant(node.inputs[2]) : nullptr;
  if (node.HasInput(2) &&
      (!bias || bias->dtype() != DType::kFloat || bias->rank() != 1 || bias->size() != static_cast<int64_t>(channels)))
    return false;
  std::vector<float> offset(channels);
  for (size_t c = 0; c < channels; ++c) {
    double before = bias ? static_cast<double>(bias->Data<float>()[c]) : 0.0;
    offset[c] = static_cast<float>(before * norm->factor[c] + norm->offset[c]);
  }
  Node folded = node;
  Tensor scaled =
      Scaled(*weight, static_cast<size_t>(axis), norm->factor, keep_names ? ScratchTensor::kSmallestFile : SIZE_MAX);
  folded.inputs.resize(3);
  folded.inputs[1] = Store(editor, node.inputs[1], std::move(scaled), keep_names);
  folded.inputs[2] = bias ? Store(editor, node.inputs[2], Tensor::FromVector(offset), keep_names)
                          : editor.AddConstant(BiasName(node.inputs[1]), Tensor::FromVector(offset));
  folded.outputs[0] = editor.node(static_cast<size_t>(reader)).outputs[0];
  editor.Remove(static_cast<size_t>(reader));
  editor.Replace(index, std::move(folded));
  return true;
}

}  // namespace

bool FoldBatchNorm(Graph& graph, bool keep_names) {
  if (!HasAny(graph, {"BatchNormalization"})) return false;
  GraphEditor editor(graph);
  for (size_t i = 0, count = editor.size(); i < count; ++i)
    if (!editor.removed(i)) Fold(editor, i, keep_names);
  return editor.Finish();
}

}  // namespace ferry
