#include "passes/fuse_conv.h"

#include <algorithm>
#include <optional>

#include "graph/editor.h"
#include "ops/infer_graph.h"
#include "ops/support/fused.h"
#include "passes/activation_pattern.h"
#include "passes/match.h"

namespace ferry {
namespace {

class Fusion {
 public:
  Fusion(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i) {
      const Node& node = editor_.node(i);
      if (editor_.removed(i) || node.domain != kInternalDomain) continue;
      if (node.op_type == "NhwcConv") {
        TakeScaling(i);
        FuseConv(i);
      } else if (node.op_type == "NhwcAffine" || node.op_type == "NhwcConvTranspose")
        FuseActivation(i);
    }
    return editor_.Finish();
  }

 private:
  // What a node can do in its own step, and what it makes then.
  struct Taken {
    std::string output;
    std::string residual;
    std::optional<Activation> activation;
    std::vector<size_t> nodes;
  };

  void FuseConv(size_t index) {
    const Node& conv = editor_.node(index);
    Taken taken{conv.outputs[0]};
    if (!conv.HasInput(3) && ActivationOf(conv).kind == ActivationKind::kNone) TakeResidual(taken);
    TakeActivation(conv, taken);
    Finish(index, taken);
  }

  bool IsPointwise(const Node& conv) const {
    const Tensor* weight = editor_.Constant(conv.inputs[1]);
    if (!weight || weight->rank() < 3 || weight->shape().CountBetween(2, weight->rank()) != 1) return false;
    auto all = [&](const char* name, int64_t wanted) {
      const std::vector<int64_t> values = conv.Ints(name);
      return std::all_of(values.begin(), values.end(), [=](int64_t value) { return value == wanted; });
    };
    return all("strides", 1) && all("pads", 0) && conv.Int("group", 1) == 1 && conv.Int("channels_first", 0) == 0;
  }

  // Batch normalisation in front of a convolution that reads every pixel once.
  void TakeScaling(size_t index) {
    const Node& plain = editor_.node(index);
    const int maker = editor_.Producer(plain.inputs[0]);
    if (maker < 0 || !IsPointwise(plain) || plain.HasInput(4) || editor_.OnlyReader(plain.inputs[0]) < 0) return;
    const Node& affine = editor_.node(static_cast<size_t>(maker));
    if (affine.op_type != "NhwcAffine" || affine.domain != kInternalDomain || affine.inputs.size() != 3) return;
    for (size_t i : {1, 2})
      if (const Tensor* constant = editor_.Constant(affine.inputs[i]); !constant || constant->rank() != 1) return;
    if (std::count(plain.inputs.begin(), plain.inputs.end(), plain.inputs[0]) != 1) return;
    Node conv = plain;
    const Activation before = ActivationOf(affine);
    conv.Set("before", std::vector<float>{static_cast<float>(before.kind), before.alpha, before.beta});
    conv.inputs.resize(std::max<size_t>(6, conv.inputs.size()));
    conv.inputs[0] = affine.inputs[0];
    conv.inputs[4] = affine.inputs[1];
    conv.inputs[5] = affine.inputs[2];
    editor_.Remove(static_cast<size_t>(maker));
    editor_.Replace(index, std::move(conv));
  }

  void FuseActivation(size_t index) {
    const Node& node = editor_.node(index);
    Taken taken{node.outputs[0]};
    TakeActivation(node, taken);
    Finish(index, taken);
  }

  const SymbolicShape* ShapeOf(const std::string& value) const {
    const ValueFacts* facts = facts_.Find(value);
    return facts && facts->type.dtype == DType::kFloat && facts->type.shape ? &*facts->type.shape : nullptr;
  }

  bool SameShape(const std::string& a, const std::string& b) const {
    const SymbolicShape *first = ShapeOf(a), *second = ShapeOf(b);
    return first && second && first->size() == second->size() &&
           std::equal(first->begin(), first->end(), second->begin(), SameDim);
  }

  void TakeResidual(Taken& taken) const {
    int reader = editor_.OnlyReader(taken.output);
    if (reader < 0) return;
    const Node& add = editor_.node(static_cast<size_t>(reader));
    if (!IsStandard(add, "Add") || add.inputs[0] == add.inputs[1]) return;
    const std::string& other = add.inputs[0] == taken.output ? add.inputs[1] : add.inputs[0];
    if (!SameShape(other, taken.output)) return;
    taken.residual = other;
    taken.output = add.outputs[0];
    taken.nodes.push_back(static_cast<size_t>(reader));
  }

  void TakeActivation(const Node& node, Taken& taken) const {
    if (ActivationOf(node).kind != ActivationKind::kNone) return;
    std::optional<ActivationMatch> match = MatchActivation(editor_, taken.output);
    if (!match) return;
    taken.activation = match->activation;
    taken.output = match->output;
    taken.nodes.insert(taken.nodes.end(), match->nodes.begin(), match->nodes.end());
  }

  // The fused node stands where the last of its parts stood: what it reads is made by then.
  void Finish(size_t index, const Taken& taken) {
    if (taken.nodes.empty()) return;
    Node fused = editor_.Take(index);
    if (fused.op_type == "NhwcConv" && fused.inputs.size() < 4) fused.inputs.resize(4);
    if (!taken.residual.empty()) fused.inputs[3] = taken.residual;
    if (taken.activation) SetActivation(fused, *taken.activation);
    fused.outputs[0] = taken.output;
    size_t last = *std::max_element(taken.nodes.begin(), taken.nodes.end());
    for (size_t part : taken.nodes)
      if (part != last) editor_.Remove(part);
    editor_.Replace(last, std::move(fused));
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
};

}  // namespace

bool FuseConv(Graph& graph, GraphFacts& facts) {
  if (!HasAny(graph, {"NhwcConv", "NhwcConvTranspose"})) return false;
  InferNew(graph, facts);
  return Fusion(graph, facts).Run();
}

}  // namespace ferry
