#include "passes/fuse_matmul.h"

#include <algorithm>

#include "graph/editor.h"
#include "ops/support/fused.h"
#include "passes/activation_pattern.h"
#include "passes/match.h"

namespace ferry {
namespace {

bool IsMatrix(const Tensor* tensor, DType type) {
  return tensor && tensor->dtype() == type && tensor->rank() == 2 && tensor->size() > 0;
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
  Fusion(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i) {
      if (editor_.removed(i)) continue;
      if (IsStandard(editor_.node(i), "MatMul"))
        FromMatMul(i);
      else if (IsStandard(editor_.node(i), "Gemm"))
        FromGemm(i);
      else if (editor_.node(i).op_type == "FusedMatMul" && editor_.node(i).domain == kInternalDomain)
        FromFused(i);
    }
    return editor_.Finish();
  }

 private:
  void FromMatMul(size_t index) {
    const Node& node = editor_.node(index);
    std::string name = node.inputs[1];
    const Node* transpose = MadeBy(editor_, name, "Transpose");
    if (transpose && editor_.Constant(transpose->inputs[0])) name = transpose->inputs[0];
    const Tensor* matrix = editor_.Constant(name);
    const bool is_widened = IsMatrix(matrix, DType::kFloat16) && IsFloat(node.outputs[0]);
    if (!IsMatrix(matrix, DType::kFloat) && !is_widened) return;
    bool transposed = name != node.inputs[1];
    if (transposed && transpose->Find("perm") && !IsPermutation(*transpose, {1, 0})) return;
    Start(node, name, matrix->dim(transposed ? 0 : 1));
    if (transposed) fused_.Set("transB", int64_t{1});
    bool changed = transposed;
    changed |= TakeBias();
    changed |= TakeWhatFollows();
    if (changed) Finish(index);
  }

  // y = x · Bᵀ + c, as PyTorch exports a linear layer. Other scalings stay as they are.
  void FromGemm(size_t index) {
    const Node& node = editor_.node(index);
    const Tensor* matrix = editor_.Constant(node.inputs[1]);
    if (!IsMatrix(matrix, DType::kFloat) || node.Int("transA", 0) != 0 || node.Float("alpha", 1.0f) != 1.0f) return;
    int64_t columns = matrix->dim(node.Int("transB", 0) ? 0 : 1);
    const Tensor* bias = nullptr;
    if (node.HasInput(2)) {
      bias = ColumnVector(editor_, node.inputs[2], columns);
      if (!bias || node.Float("beta", 1.0f) != 1.0f) return;
    }
    Start(node, node.inputs[1], columns);
    if (node.Int("transB", 0)) fused_.Set("transB", int64_t{1});
    if (bias) fused_.inputs[2] = AsVector(node.inputs[2], *bias);
    TakeWhatFollows();
    Finish(index);
  }

  // One whose transposes have gone since.
  void FromFused(size_t index) {
    const Node& node = editor_.node(index);
    const Tensor* matrix = editor_.Constant(node.inputs[1]);
    if (!matrix || node.HasInput(3) || ActivationOf(node).kind != ActivationKind::kNone) return;
    Start(node, node.inputs[1], matrix->dim(node.Int("transB", 0) ? 0 : 1));
    fused_ = node;
    if (TakeWhatFollows()) Finish(index);
  }

  bool IsFloat(const std::string& name) const {
    const ValueFacts* facts = facts_.Find(name);
    return facts && facts->type.dtype == DType::kFloat;
  }

  void Start(const Node& node, const std::string& matrix, int64_t columns) {
    fused_ = Node();
    fused_.name = node.name;
    fused_.op_type = "FusedMatMul";
    fused_.domain = kInternalDomain;
    fused_.inputs = {node.inputs[0], matrix, ""};
    fused_.outputs = {node.outputs[0]};
    columns_ = columns;
    taken_.clear();
    view_ = -1;
  }

  bool TakeBias() {
    int reader = editor_.OnlyReader(fused_.outputs[0]);
    if (reader < 0) return false;
    const Node& add = editor_.node(static_cast<size_t>(reader));
    if (!IsStandard(add, "Add")) return false;
    const std::string& other = add.inputs[0] == fused_.outputs[0] ? add.inputs[1] : add.inputs[0];
    const Tensor* bias = ColumnVector(editor_, other, columns_);
    // A bias of more dimensions than the product would widen the result.
    if (!bias || bias->rank() > 1) return false;
    fused_.inputs[2] = AsVector(other, *bias);
    fused_.outputs[0] = add.outputs[0];
    taken_.push_back(static_cast<size_t>(reader));
    return true;
  }

  // An activation, or a factor for each column and a sum, also behind a Reshape, which then comes after them.
  bool TakeWhatFollows() {
    std::string result = fused_.outputs[0];
    int reader = editor_.OnlyReader(result);
    if (reader >= 0 && IsStandard(editor_.node(static_cast<size_t>(reader)), "Reshape") &&
        editor_.node(static_cast<size_t>(reader)).inputs[0] == result) {
      view_ = reader;
      result = editor_.node(static_cast<size_t>(reader)).outputs[0];
    }
    // The factor comes after the activation: an activation of what is multiplied already is another thing.
    bool taken = !fused_.HasInput(4) && TakeActivation(result);
    if (!taken) {
      taken = TakeScale(result);
      taken |= TakeResidual(result);
    }
    if (taken) {
      if (view_ < 0) fused_.outputs[0] = result;
      view_output_ = result;
      return true;
    }
    view_ = -1;
    return false;
  }

  bool TakeActivation(std::string& result) {
    std::optional<ActivationMatch> match = MatchActivation(editor_, result);
    if (!match) return false;
    SetActivation(fused_, match->activation);
    result = match->output;
    taken_.insert(taken_.end(), match->nodes.begin(), match->nodes.end());
    return true;
  }

  bool TakeScale(std::string& result) {
    int reader = editor_.OnlyReader(result);
    if (reader < 0 || !IsStandard(editor_.node(static_cast<size_t>(reader)), "Mul")) return false;
    const Node& product = editor_.node(static_cast<size_t>(reader));
    const std::string& other = product.inputs[product.inputs[0] == result ? 1 : 0];
    const Tensor* scale = ColumnVector(editor_, other, columns_);
    if (!scale || fused_.HasInput(4) || !EndsWithColumns(result) || scale->rank() > ShapeOf(result)->size())
      return false;
    std::string next = product.outputs[0];
    fused_.inputs.resize(5);
    fused_.inputs[4] = AsVector(other, *scale);
    result = std::move(next);
    taken_.push_back(static_cast<size_t>(reader));
    return true;
  }

  bool TakeResidual(std::string& result) {
    int reader = editor_.OnlyReader(result);
    if (reader < 0 || !IsStandard(editor_.node(static_cast<size_t>(reader)), "Add")) return false;
    const Node& add = editor_.node(static_cast<size_t>(reader));
    const std::string& other = add.inputs[0] == result ? add.inputs[1] : add.inputs[0];
    if (!SameShape(result, other) || !EndsWithColumns(other)) return false;
    if (fused_.inputs.size() < 4) fused_.inputs.resize(4);
    fused_.inputs[3] = other;
    result = add.outputs[0];
    taken_.push_back(static_cast<size_t>(reader));
    return true;
  }

  const SymbolicShape* ShapeOf(const std::string& value) const {
    const ValueFacts* facts = facts_.Find(value);
    return facts && facts->type.shape ? &*facts->type.shape : nullptr;
  }
  bool SameShape(const std::string& a, const std::string& b) const {
    const SymbolicShape *x = ShapeOf(a), *y = ShapeOf(b);
    return x && y && std::equal(x->begin(), x->end(), y->begin(), y->end(), SameDim);
  }
  bool EndsWithColumns(const std::string& value) const {
    const SymbolicShape* shape = ShapeOf(value);
    return shape && !shape->empty() && shape->back().value == columns_;
  }

  std::string AsVector(const std::string& name, const Tensor& bias) {
    return bias.rank() == 1 ? name : editor_.AddConstant(name + "_vector", bias.Reshaped({bias.size()}));
  }

  // The fused node stands where the last of its parts stood: by then all it reads is there.
  void Finish(size_t index) {
    size_t place = index;
    for (size_t taken : taken_) place = std::max(place, taken);
    if (view_ >= 0) {
      Node view = editor_.node(static_cast<size_t>(view_));
      fused_.outputs[0] = editor_.FreshName(view_output_ + "_flat");
      view.inputs[0] = fused_.outputs[0];
      view.outputs[0] = view_output_;
      RemoveTaken(index, place);
      editor_.Remove(static_cast<size_t>(view_));
      editor_.Replace(place, std::move(view));
      editor_.InsertBefore(place, std::move(fused_));
      return;
    }
    RemoveTaken(index, place);
    editor_.Replace(place, std::move(fused_));
  }

  void RemoveTaken(size_t index, size_t place) {
    taken_.push_back(index);
    for (size_t taken : taken_)
      if (taken != place) editor_.Remove(taken);
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
  Node fused_;
  int64_t columns_ = 0;
  std::vector<size_t> taken_;
  int view_ = -1;  // a Reshape between the product and what follows
  std::string view_output_;
};

}  // namespace

bool FuseMatMul(Graph& graph, GraphFacts& facts) {
  if (!HasAny(graph, {"MatMul", "Gemm", "FusedMatMul"})) return false;
  InferNew(graph, facts);
  return Fusion(graph, facts).Run();
}

}  // namespace ferry
