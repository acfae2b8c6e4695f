#include "passes/fuse_normalization.h"

#include "passes/match.h"

namespace ferry {
namespace {

class Fusion {
 public:
  Fusion(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i)
      if (!editor_.removed(i) && IsStandard(editor_.node(i), "Mul")) FromScaling(i);
    return editor_.Finish();
  }

 private:
  // scale · (x / deviation), or the same with x · (1 / deviation).
  void FromScaling(size_t index) {
    const Node& product = editor_.node(index);
    for (size_t i = 0; i < 2; ++i) {
      const Tensor* scale = editor_.Constant(product.inputs[i]);
      if (!scale || scale->dtype() != DType::kFloat || scale->rank() != 1) continue;
      std::string numerator, deviation;
      if (!TakeQuotient(product.inputs[1 - i], numerator, deviation)) continue;
      std::string squared;
      float epsilon = 0;
      if (!TakeDeviation(deviation, squared, epsilon) || squared != numerator) continue;
      std::string x = numerator;
      bool centered = TakeCentering(x);
      if (!LastDimIs(x, scale->size())) continue;
      return Replace(index, x, product.inputs[i], scale->size(), epsilon, centered);
    }
  }

  bool TakeQuotient(const std::string& value, std::string& numerator, std::string& deviation) const {
    if (const Node* quotient = MadeOnlyBy(editor_, value, "Div")) {
      numerator = quotient->inputs[0];
      deviation = quotient->inputs[1];
      return true;
    }
    const Node* product = MadeOnlyBy(editor_, value, "Mul");
    if (!product) return false;
    for (size_t i = 0; i < 2; ++i) {
      const Node* inverse = MadeBy(editor_, product->inputs[i], "Reciprocal");
      if (!inverse) continue;
      numerator = product->inputs[1 - i];
      deviation = inverse->inputs[0];
      return true;
    }
    return false;
  }

  // sqrt(mean(x²) + epsilon)
  bool TakeDeviation(const std::string& value, std::string& x, float& epsilon) const {
    const Node* root = MadeBy(editor_, value, "Sqrt");
    const Node* sum = root ? MadeBy(editor_, root->inputs[0], "Add") : nullptr;
    auto parts = sum ? ScalarOperand(editor_, *sum) : std::nullopt;
    if (!parts) return false;
    epsilon = parts->scalar;
    std::string squares;
    if (!TakeMean(parts->other, squares)) return false;
    if (const Node* power = MadeBy(editor_, squares, "Pow")) {
      x = power->inputs[0];
      return ScalarConstant(editor_, power->inputs[1]) == 2.0f;
    }
    const Node* product = MadeBy(editor_, squares, "Mul");
    if (!product || product->inputs[0] != product->inputs[1]) return false;
    x = product->inputs[0];
    return true;
  }

  bool TakeMean(const std::string& value, std::string& x) const {
    const Node* mean = MadeBy(editor_, value, "ReduceMean");
    if (!mean || mean->Int("keepdims", 1) != 1 || mean->inputs.size() != 2) return false;
    const Tensor* axes = editor_.Constant(mean->inputs[1]);
    if (!axes || axes->dtype() != DType::kInt64 || axes->size() != 1) return false;
    const ValueFacts* facts = facts_.Find(mean->inputs[0]);
    int64_t axis = *axes->Data<int64_t>();
    bool is_last =
        axis == -1 || (facts && facts->type.shape && axis == static_cast<int64_t>(facts->type.shape->size()) - 1);
    x = mean->inputs[0];
    return is_last;
  }

  // x - mean(x)
  bool TakeCentering(std::string& x) const {
    const Node* difference = MadeBy(editor_, x, "Sub");
    std::string averaged;
    if (!difference || !TakeMean(difference->inputs[1], averaged) || averaged != difference->inputs[0]) return false;
    x = averaged;
    return true;
  }

  bool LastDimIs(const std::string& value, int64_t size) const {
    const ValueFacts* facts = facts_.Find(value);
    return facts && facts->type.dtype == DType::kFloat && facts->type.shape && !facts->type.shape->empty() &&
           facts->type.shape->back().value == size;
  }

  void Replace(size_t index, const std::string& x, const std::string& scale, int64_t size, float epsilon,
               bool centered) {
    Node node;
    node.name = editor_.node(index).name;
    node.op_type = centered ? "LayerNormalization" : "RMSNormalization";
    node.inputs = {x, scale};
    node.outputs = editor_.node(index).outputs;
    node.Set("axis", int64_t{-1});
    node.Set("epsilon", epsilon);
    if (centered && TakeBias(node, index, size)) return;
    editor_.Replace(index, std::move(node));
  }

  bool TakeBias(Node& node, size_t index, int64_t size) {
    int reader = editor_.OnlyReader(node.outputs[0]);
    if (reader < 0 || !IsStandard(editor_.node(static_cast<size_t>(reader)), "Add")) return false;
    const Node& sum = editor_.node(static_cast<size_t>(reader));
    const std::string& other = sum.inputs[0] == node.outputs[0] ? sum.inputs[1] : sum.inputs[0];
    const Tensor* bias = editor_.Constant(other);
    if (!bias || bias->dtype() != DType::kFloat || bias->rank() != 1 || bias->size() != size) return false;
    node.inputs.push_back(other);
    node.outputs = sum.outputs;
    editor_.Remove(index);
    editor_.Replace(static_cast<size_t>(reader), std::move(node));
    return true;
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
};

}  // namespace

bool FuseNormalization(Graph& graph, const GraphFacts& facts) {
  return HasAny(graph, {"Sqrt"}) && Fusion(graph, facts).Run();
}

}  // namespace ferry
