#include "passes/fuse_matmul.h"

#include "graph/editor.h"
#include "ops/support/fused.h"
#include "passes/activation_pattern.h"

namespace ferry {
namespace {

bool IsFloatMatrix(const Tensor* tensor) {
  return tensor && tensor->dtype() == DType::kFloat && tensor->rank() == 2 && tensor->size() > 0;
}

// A vector over the columns, whatever leading ones it carries; null when it is anything else.
const Tensor* ColumnVector(const GraphEditor& editor, const std::string& name, int64_t columns) {
  const Tensor* constant = editor.Constant(name);
  bool fits = constant && constant->dtype() == DType::kFloat && constant->rank() >= 1 && constant->size() == columns &&
              constant->shape().back() == columns;
  return fits ? constant : nullptr;
}

class Fusion {
 public:
  explicit Fusion(Graph& graph) : editor_(graph) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i) {
      if (editor_.removed(i)) continue;
      const Node& node = editor_.node(i);
      if (!CanonicalDomain(node.domain).empty()) continue;
      if (node.op_type == "MatMul")
        FromMatMul(i);
      else if (node.op_type == "Gemm")
        FromGemm(i);
    }
    return editor_.Finish();
  }

 private:
  void FromMatMul(size_t index) {
    const Node& node = editor_.node(index);
    const Tensor* matrix = editor_.Constant(node.inputs[1]);
    if (!IsFloatMatrix(matrix)) return;
    Node fused = Start(node, node.inputs[1]);
    int64_t columns = matrix->dim(1);
    bool changed = TakeBias(fused, columns);
    changed |= TakeActivation(fused);
    if (changed) Finish(index, std::move(fused));
  }

  // y = x · Bᵀ + c, as PyTorch exports a linear layer. Other scalings stay as they are.
  void FromGemm(size_t index) {
    const Node& node = editor_.node(index);
    const Tensor* matrix = editor_.Constant(node.inputs[1]);
    if (!IsFloatMatrix(matrix) || node.Int("transA", 0) != 0 || node.Float("alpha", 1.0f) != 1.0f) return;
    int64_t columns = matrix->dim(node.Int("transB", 0) ? 0 : 1);
    const Tensor* bias = nullptr;
    if (node.HasInput(2)) {
      bias = ColumnVector(editor_, node.inputs[2], columns);
      if (!bias || node.Float("beta", 1.0f) != 1.0f) return;
    }
    Node fused = Start(node, node.inputs[1]);
    if (node.Int("transB", 0)) fused.Set("transB", int64_t{1});
    if (bias) fused.inputs[2] = AsVector(node.inputs[2], *bias);
    TakeActivation(fused);
    Finish(index, std::move(fused));
  }

  Node Start(const Node& node, const std::string& matrix) {
    Node fused;
    fused.name = node.name;
    fused.op_type = "FusedMatMul";
    fused.domain = kInternalDomain;
    fused.inputs = {node.inputs[0], matrix, ""};
    fused.outputs = {node.outputs[0]};
    taken_.clear();
    return fused;
  }

  bool TakeBias(Node& fused, int64_t columns) {
    int reader = editor_.OnlyReader(fused.outputs[0]);
    if (reader < 0) return false;
    const Node& add = editor_.node(static_cast<size_t>(reader));
    if (add.op_type != "Add" || !CanonicalDomain(add.domain).empty()) return false;
    const std::string& other = add.inputs[0] == fused.outputs[0] ? add.inputs[1] : add.inputs[0];
    const Tensor* bias = ColumnVector(editor_, other, columns);
    // A bias of more dimensions than the product would widen the result.
    if (!bias || bias->rank() > 1) return false;
    fused.inputs[2] = AsVector(other, *bias);
    fused.outputs[0] = add.outputs[0];
    taken_.push_back(static_cast<size_t>(reader));
    return true;
  }

  bool TakeActivation(Node& fused) {
    std::optional<ActivationMatch> match = MatchActivation(editor_, fused.outputs[0]);
    if (!match) return false;
    SetActivation(fused, match->activation);
    fused.outputs[0] = match->output;
    taken_.insert(taken_.end(), match->nodes.begin(), match->nodes.end());
    return true;
  }

  std::string AsVector(const std::string& name, const Tensor& bias) {
    return bias.rank() == 1 ? name : editor_.AddConstant(name + "_vector", bias.Reshaped({bias.size()}));
  }

  void Finish(size_t index, Node fused) {
    for (size_t taken : taken_) editor_.Remove(taken);
    editor_.Replace(index, std::move(fused));
  }

  GraphEditor editor_;
  std::vector<size_t> taken_;
};

}  // namespace

bool FuseMatMul(Graph& graph) { return Fusion(graph).Run(); }

}  // namespace ferry
