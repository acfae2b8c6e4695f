#include "passes/fuse_blocked_matmul.h"

#include <algorithm>

#include "ops/support/blocked_matmul.h"
#include "ops/support/fused.h"
#include "passes/match.h"

namespace ferry {
namespace {

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
    }
    return editor_.Finish();
  }

 private:
  void FromMatMul(size_t index) {
    const Node node = editor_.node(index);
    std::string name = node.inputs[1];
    bool transposed = false;
    if (const Node* transpose = MadeBy(editor_, name, "Transpose")) {
      if (transpose->Find("perm") && !IsPermutation(*transpose, {1, 0})) return;
      name = transpose->inputs[0];
      transposed = true;
    }
    if (!Start(node, name, transposed)) return;
    if (int reader = BiasReader()) {
      const Node& add = editor_.node(static_cast<size_t>(reader));
      fused_.inputs[4] = add.inputs[add.inputs[0] == fused_.outputs[0] ? 1 : 0];
      fused_.outputs[0] = add.outputs[0];
      editor_.Remove(index);
      index = static_cast<size_t>(reader);
    }
    editor_.Replace(index, std::move(fused_));
  }

  void FromGemm(size_t index) {
    const Node node = editor_.node(index);
    if (node.Int("transA", 0) != 0 || node.Float("alpha", 1.0f) != 1.0f) return;
    if (node.HasInput(2) && (node.Float("beta", 1.0f) != 1.0f || !editor_.Constant(node.inputs[2]))) return;
    if (!Start(node, node.inputs[1], node.Int("transB", 0) != 0)) return;
    if (node.HasInput(2)) {
      const Tensor bias = *editor_.Constant(node.inputs[2]);
      if (bias.size() != columns_ || bias.dtype() != DType::kFloat || bias.rank() == 0 ||
          bias.shape().back() != columns_)
        return;
      fused_.inputs[4] = node.inputs[2];
    }
    editor_.Replace(index, std::move(fused_));
  }

  // A sum with one number for each column that is all that becomes of the product; 0 where there is none.
  int BiasReader() const {
    const int reader = editor_.OnlyReader(fused_.outputs[0]);
    if (reader <= 0) return 0;
    const Node& add = editor_.node(static_cast<size_t>(reader));
    if (!IsStandard(add, "Add")) return 0;
    const Tensor* bias = editor_.Constant(add.inputs[add.inputs[0] == fused_.outputs[0] ? 1 : 0]);
    const bool fits = bias && bias->dtype() == DType::kFloat && bias->rank() == 1 && bias->size() == columns_;
    return fits ? reader : 0;
  }

  bool Start(const Node& node, const std::string& weights, bool transposed) {
    const Node* dequantize = MadeBy(editor_, weights, "DequantizeLinear");
    const ValueFacts* rows = facts_.Find(node.inputs[0]);
    if (!dequantize || !rows || rows->type.dtype != DType::kFloat || !rows->type.shape || rows->type.shape->empty())
      return false;
    const Tensor *w = editor_.Constant(dequantize->inputs[0]), *scales = editor_.Constant(dequantize->inputs[1]);
    const Tensor* zeros = dequantize->HasInput(2) ? editor_.Constant(dequantize->inputs[2]) : nullptr;
    if (!w || !scales || (dequantize->HasInput(2) && !zeros) || w->rank() != 2 || w->size() == 0 ||
        !AreBlocked(w->dtype()) || scales->dtype() != DType::kFloat || (zeros && zeros->dtype() != w->dtype()) ||
        (zeros && zeros->shape() != scales->shape()))
      return false;
    const int64_t depth = w->dim(transposed ? 1 : 0), block_size = dequantize->Int("block_size", 0);
    columns_ = w->dim(transposed ? 0 : 1);
    const int64_t axis = dequantize->Int("axis", 1), depth_axis = transposed ? 1 : 0;
    const bool along_depth = (axis < 0 ? axis + 2 : axis) == depth_axis;
    const int64_t block = block_size > 0 ? block_size : depth;
    if (block % 16 != 0 || block > (1 << 20) || (block_size > 0 ? !along_depth : scales->rank() > 1)) return false;
    if (axis < -2 || axis > 1) return false;
    const int64_t blocks = (depth + block - 1) / block;
    const Shape wanted = transposed ? Shape{columns_, blocks} : Shape{blocks, columns_};
    if (block_size > 0 ? scales->shape() != wanted : scales->size() != 1 && (along_depth || scales->size() != columns_))
      return false;
    fused_ = Node();
    fused_.name = node.name;
    fused_.op_type = "BlockedMatMul";
    fused_.domain = kInternalDomain;
    fused_.inputs = {node.inputs[0], dequantize->inputs[0], dequantize->inputs[1],
                     zeros ? dequantize->inputs[2] : std::string(), std::string()};
    fused_.outputs = {node.outputs[0]};
    if (transposed) fused_.Set("transposed", int64_t{1});
    fused_.Set("block", block);
    if (block_size == 0) {
      const Tensor scale = *scales, zero = zeros ? *zeros : Tensor();
      fused_.inputs[2] = editor_.AddConstant(fused_.inputs[2], Spread(scale, wanted));
      if (zero.defined()) fused_.inputs[3] = editor_.AddConstant(fused_.inputs[3], Spread(zero, wanted));
    }
    return true;
  }

  // One number for each column, out of as many or of one.
  static Tensor Spread(const Tensor& values, const Shape& shape) {
    if (values.size() == shape.ElementCount()) return values.Reshaped(shape);
    Tensor spread(values.dtype(), shape);
    if (BitWidth(values.dtype()) == 4) {
      const auto number = static_cast<uint8_t>(static_cast<uint8_t>(values.raw()[0]) & 15u);
      std::fill_n(reinterpret_cast<uint8_t*>(spread.mutable_raw()), spread.bytes(),
                  static_cast<uint8_t>(number | number << 4));
      return spread;
    }
    const size_t bytes = static_cast<size_t>(BitWidth(values.dtype()) / 8);
    for (int64_t i = 0; i < spread.size(); ++i)
      std::copy_n(values.raw(), bytes, spread.mutable_raw() + static_cast<size_t>(i) * bytes);
    return spread;
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
  Node fused_;
  int64_t columns_ = 0;
};

}  // namespace

bool FuseBlockedMatMul(Graph& graph, const GraphFacts& facts) {
  return HasAny(graph, {"DequantizeLinear"}) && Fusion(graph, facts).Run();
}

}  // namespace ferry
