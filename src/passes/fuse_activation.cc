#include "passes/fuse_activation.h"

#include <cmath>

#include "passes/match.h"

namespace ferry {
namespace {

bool Near(float value, double wanted) { return std::abs(value - wanted) <= 1e-5 * std::abs(wanted); }

class Fusion {
 public:
  Fusion(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i) {
      if (editor_.removed(i)) continue;
      if (IsStandard(editor_.node(i), "Div")) FromHardSwish(i);
      if (IsStandard(editor_.node(i), "Mul") && !FromSilu(i) && !FromGelu(i)) FromHardSwish(i);
    }
    return editor_.Finish();
  }

 private:
  // x · sigmoid(alpha · x). Left alone where alpha is 1 and what makes x could take the pair as it is.
  bool FromSilu(size_t index) {
    const Node& product = editor_.node(index);
    for (size_t i = 0; i < 2; ++i) {
      const Node* gate = MadeOnlyBy(editor_, product.inputs[i], "Sigmoid");
      if (!gate) continue;
      const std::string& x = product.inputs[1 - i];
      float alpha = 1;
      if (gate->inputs[0] != x) {
        const Node* scaled = MadeOnlyBy(editor_, gate->inputs[0], "Mul");
        auto parts = scaled ? ScalarOperand(editor_, *scaled) : std::nullopt;
        if (!parts || parts->other != x) continue;
        alpha = parts->scalar;
      }
      return Replace(index, x, "Swish", [&](Node& node) { node.Set("alpha", alpha); });
    }
    return false;
  }

  // 0.5 · x · (1 + erf(x / √2)) or 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))), multiplied in any order.
  bool FromGelu(size_t index) {
    std::vector<std::string> factors;
    float scalar = 1;
    Factors(editor_.node(index), factors, scalar);
    if (factors.size() != 2 || !Near(scalar, 0.5)) return false;
    for (size_t i = 0; i < 2; ++i) {
      const std::string& x = factors[1 - i];
      const Node* sum = MadeOnlyBy(editor_, factors[i], "Add");
      auto parts = sum ? ScalarOperand(editor_, *sum) : std::nullopt;
      if (!parts || parts->scalar != 1.0f) continue;
      if (const Node* erf = MadeOnlyBy(editor_, parts->other, "Erf"); erf && IsOverRootTwo(erf->inputs[0], x))
        return Replace(index, x, "Gelu", [](Node&) {});
      if (const Node* tanh = MadeOnlyBy(editor_, parts->other, "Tanh"); tanh && IsCubic(tanh->inputs[0], x))
        return Replace(index, x, "Gelu", [](Node& node) { node.Set("approximate", std::string("tanh")); });
    }
    return false;
  }

  // x · clip(x + 3, 0, 6) / 6, divided or multiplied anywhere.
  bool FromHardSwish(size_t index) {
    const Node& last = editor_.node(index);
    std::vector<std::string> factors;
    float scalar = 1;
    if (IsStandard(last, "Div")) {
      auto divisor = ScalarConstant(editor_, last.inputs[1]);
      const Node* product = MadeOnlyBy(editor_, last.inputs[0], "Mul");
      if (!divisor || !product) return false;
      scalar = 1 / *divisor;
      Factors(*product, factors, scalar);
    } else {
      Factors(last, factors, scalar);
    }
    if (factors.size() != 2) return false;
    for (size_t i = 0; i < 2; ++i) {
      std::string gate = factors[i];
      float scale = scalar;
      if (const Node* quotient = MadeOnlyBy(editor_, gate, "Div")) {
        auto divisor = ScalarConstant(editor_, quotient->inputs[1]);
        if (!divisor) continue;
        scale /= *divisor;
        gate = quotient->inputs[0];
      }
      const Node* clip = MadeOnlyBy(editor_, gate, "Clip");
      if (!clip || clip->inputs.size() != 3 || ScalarConstant(editor_, clip->inputs[1]) != 0.0f) continue;
      const Node* sum = MadeOnlyBy(editor_, clip->inputs[0], "Add");
      auto parts = sum ? ScalarOperand(editor_, *sum) : std::nullopt;
      if (!parts || parts->scalar != 3.0f || parts->other != factors[1 - i]) continue;
      if (ScalarConstant(editor_, clip->inputs[2]) != 6.0f || !Near(scale, 1.0 / 6)) continue;
      return Replace(index, factors[1 - i], "HardSwish", [](Node&) {});
    }
    return false;
  }

  // The factors of a tree of products, constants multiplied together.
  void Factors(const Node& product, std::vector<std::string>& factors, float& scalar, int most_levels = 6) const {
    for (const std::string& input : product.inputs) {
      if (auto constant = ScalarConstant(editor_, input)) {
        scalar *= *constant;
        continue;
      }
      const Node* inner = MadeOnlyBy(editor_, input, "Mul");
      if (inner && factors.size() < 4 && most_levels > 0)
        Factors(*inner, factors, scalar, most_levels - 1);
      else
        factors.push_back(input);
    }
  }

  bool IsOverRootTwo(const std::string& value, const std::string& x) const {
    if (const Node* product = MadeOnlyBy(editor_, value, "Mul")) {
      auto parts = ScalarOperand(editor_, *product);
      return parts && parts->other == x && Near(parts->scalar, std::sqrt(0.5));
    }
    const Node* quotient = MadeOnlyBy(editor_, value, "Div");
    if (!quotient || quotient->inputs[0] != x) return false;
    auto divisor = ScalarConstant(editor_, quotient->inputs[1]);
    return divisor && Near(*divisor, std::sqrt(2.0));
  }

  bool IsCubic(const std::string& value, const std::string& x) const {
    const Node* product = MadeOnlyBy(editor_, value, "Mul");
    auto outer = product ? ScalarOperand(editor_, *product) : std::nullopt;
    const Node* sum =
        outer && Near(outer->scalar, std::sqrt(2 / M_PI)) ? MadeOnlyBy(editor_, outer->other, "Add") : nullptr;
    if (!sum) return false;
    for (size_t i = 0; i < 2; ++i) {
      if (sum->inputs[i] != x) continue;
      const Node* term = MadeOnlyBy(editor_, sum->inputs[1 - i], "Mul");
      if (!term) continue;
      std::vector<std::string> factors;
      float scalar = 1;
      Factors(*term, factors, scalar);
      if (!Near(scalar, 0.044715)) continue;
      if (factors.size() == 3 && factors[0] == x && factors[1] == x && factors[2] == x) return true;
      const Node* cube = factors.size() == 1 ? MadeOnlyBy(editor_, factors[0], "Pow") : nullptr;
      if (cube && cube->inputs[0] == x && ScalarConstant(editor_, cube->inputs[1]) == 3.0f) return true;
    }
    return false;
  }

  template <class Finish>
  bool Replace(size_t index, const std::string& x, const char* op, const Finish& finish) {
    const ValueFacts* facts = facts_.Find(x);
    // Constants of one axis make a vector of a scalar.
    if (!facts || facts->type.dtype != DType::kFloat || !facts->type.shape || facts->type.shape->empty()) return false;
    Node node;
    node.name = editor_.node(index).name;
    node.op_type = op;
    node.inputs = {x};
    node.outputs = editor_.node(index).outputs;
    finish(node);
    editor_.Replace(index, std::move(node));
    return true;
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
};

}  // namespace

bool FuseActivation(Graph& graph, const GraphFacts& facts) {
  return HasAny(graph, {"Sigmoid", "Erf", "Tanh", "Clip"}) && Fusion(graph, facts).Run();
}

}  // namespace ferry
