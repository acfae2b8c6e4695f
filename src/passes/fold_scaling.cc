#include "passes/fold_scaling.h"

#include "passes/match.h"

namespace ferry {
namespace {

class Folding {
 public:
  explicit Folding(Graph& graph) : editor_(graph) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i)
      if (!editor_.removed(i) && IsStandard(editor_.node(i), "Conv")) Fold(i);
    return editor_.Finish();
  }

 private:
  void Fold(size_t index) {
    Node conv = editor_.node(index);
    if (!conv.HasInput(1)) return;
    const Tensor* weight = editor_.Constant(conv.inputs[1]);
    const Tensor* bias = conv.HasInput(2) ? editor_.Constant(conv.inputs[2]) : nullptr;
    if (!weight || weight->dtype() != DType::kFloat || weight->rank() < 3 || (conv.HasInput(2) && !bias)) return;
    if (bias && bias->dtype() != DType::kFloat) return;
    float scale = 1, shift = 0;
    size_t place = index;
    for (int reader; (reader = Take(conv.outputs[0], scale, shift)) >= 0;) {
      editor_.Remove(place);
      place = static_cast<size_t>(reader);
      conv.outputs[0] = editor_.node(place).outputs[0];
    }
    if (place == index) return;
    conv.inputs.resize(3);
    // Both are made before either is added: adding moves the constants that are there.
    Tensor new_weight = Scaled(*weight, scale, 0);
    Tensor new_bias = Scaled(bias ? *bias : Tensor::Zeros(DType::kFloat, {weight->dim(0)}), scale, shift);
    conv.inputs[1] = editor_.AddConstant(conv.inputs[1] + "_scaled", std::move(new_weight));
    std::string hint = conv.inputs[2].empty() ? conv.outputs[0] + "_bias" : conv.inputs[2] + "_scaled";
    conv.inputs[2] = editor_.AddConstant(hint, std::move(new_bias));
    editor_.Replace(place, std::move(conv));
  }

  // The product or sum that alone reads the value, taken into scale and shift; -1 when there is none.
  int Take(const std::string& value, float& scale, float& shift) const {
    int reader = editor_.OnlyReader(value);
    if (reader < 0) return -1;
    const Node& node = editor_.node(static_cast<size_t>(reader));
    auto parts = ScalarOperand(editor_, node);
    if (!parts || parts->other != value) return -1;
    if (IsStandard(node, "Mul")) {
      scale *= parts->scalar;
      shift *= parts->scalar;
      return reader;
    }
    if (!IsStandard(node, "Add")) return -1;
    shift += parts->scalar;
    return reader;
  }

  static Tensor Scaled(const Tensor& tensor, float scale, float shift) {
    Tensor scaled(DType::kFloat, tensor.shape());
    const float* from = tensor.Data<float>();
    float* to = scaled.MutableData<float>();
    for (int64_t i = 0; i < tensor.size(); ++i) to[i] = from[i] * scale + shift;
    return scaled;
  }

  GraphEditor editor_;
};

}  // namespace

bool FoldScaling(Graph& graph) { return Folding(graph).Run(); }

}  // namespace ferry
