#include "passes/fuse_dynamic_matmul.h"

#include <algorithm>

#include "ops/support/fused.h"
#include "passes/match.h"

namespace ferry {
namespace {

class Fusion {
 public:
  Fusion(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i)
      if (!editor_.removed(i) && IsStandard(editor_.node(i), "MatMulInteger")) Fuse(i);
    return editor_.Finish();
  }

 private:
  // The only reader of a value when it is of this kind, else -1.
  int OnlyReader(const std::string& value, std::string_view op) const {
    int reader = editor_.OnlyReader(value);
    return reader >= 0 && IsStandard(editor_.node(static_cast<size_t>(reader)), op) ? reader : -1;
  }

  static const std::string& Other(const Node& node, const std::string& value) {
    return node.inputs[node.inputs[0] == value ? 1 : 0];
  }

  bool IsSingleFloat(const std::string& value) const {
    const ValueFacts* facts = facts_.Find(value);
    if (!facts || facts->type.dtype != DType::kFloat || !facts->type.shape) return false;
    const SymbolicShape& shape = *facts->type.shape;
    return shape.size() <= 1 &&
           std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return SameDim(d, Dim(1)); });
  }

  // A constant with one value, or one per column.
  bool IsPerColumn(const std::string& value, int64_t columns) const {
    const Tensor* constant = editor_.Constant(value);
    return constant && constant->dtype() == DType::kFloat && constant->rank() <= 1 &&
           (constant->size() == 1 || constant->size() == columns);
  }

  struct Scales {
    std::string a, w;  // w may be empty: 1
  };
  std::optional<Scales> ScalesOf(const std::string& value, int64_t columns) const {
    if (const Node* product = MadeBy(editor_, value, "Mul"))
      for (size_t i = 0; i < 2; ++i)
        if (IsSingleFloat(product->inputs[i]) && IsPerColumn(product->inputs[1 - i], columns))
          return Scales{product->inputs[i], product->inputs[1 - i]};
    if (IsSingleFloat(value)) return Scales{value, {}};
    return std::nullopt;
  }

  void Fuse(size_t index) {
    const Node product = editor_.node(index);
    const Tensor* weight = editor_.Constant(product.inputs[1]);
    const ValueFacts* a = facts_.Find(product.inputs[0]);
    if (!weight || weight->rank() != 2 || weight->size() == 0 || !a || !a->type.shape || a->type.shape->empty()) return;
    if (product.HasInput(3) && !editor_.Constant(product.inputs[3])) return;
    int64_t columns = weight->dim(1);
    int cast = OnlyReader(product.outputs[0], "Cast");
    if (cast < 0 || editor_.node(static_cast<size_t>(cast)).Int("to", 0) != 1) return;
    const std::string sums = editor_.node(static_cast<size_t>(cast)).outputs[0];
    int scale = OnlyReader(sums, "Mul");
    if (scale < 0) return;
    std::optional<Scales> scales = ScalesOf(Other(editor_.node(static_cast<size_t>(scale)), sums), columns);
    if (!scales) return;
    Node fused = product;
    fused.op_type = "DynamicMatMul";
    fused.domain = kInternalDomain;
    fused.inputs.resize(4);
    fused.inputs.insert(fused.inputs.end(), {scales->a, scales->w, std::string()});
    std::vector<size_t> parts = {index, static_cast<size_t>(cast), static_cast<size_t>(scale)};
    fused.outputs = editor_.node(static_cast<size_t>(scale)).outputs;
    int add = OnlyReader(fused.outputs[0], "Add");
    const std::string bias = add < 0 ? std::string() : Other(editor_.node(static_cast<size_t>(add)), fused.outputs[0]);
    if (add >= 0 && IsPerColumn(bias, columns)) {
      fused.inputs[6] = bias;
      fused.outputs = editor_.node(static_cast<size_t>(add)).outputs;
      parts.push_back(static_cast<size_t>(add));
    }
    size_t last = parts.back();
    parts.pop_back();
    for (size_t part : parts) editor_.Remove(part);
    editor_.Replace(last, std::move(fused));
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
};

}  // namespace

bool FuseDynamicMatMul(Graph& graph, const GraphFacts& facts) {
  return HasAny(graph, {"MatMulInteger"}) && Fusion(graph, facts).Run();
}

}  // namespace ferry
