#include "passes/fold_scaling.h"

#include "base/pages.h"
#include "passes/match.h"
#include "tensor/alignment.h"
#include "tensor/scale.h"

namespace ferry {
namespace {

// Factors and offsets of each output channel, in the order they are met.
struct Scaling {
  std::vector<double> scale, shift;
  bool has_scale = false;

  explicit Scaling(size_t channels) : scale(channels, 1.0), shift(channels, 0.0) {}
};

class Folding {
 public:
  explicit Folding(Graph& graph) : editor_(graph) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i)
      if (!editor_.removed(i) && FeatureAxis(editor_.node(i)) >= 0) Fold(i);
    return editor_.Finish();
  }

 private:
  // Of the weights.
  static int FeatureAxis(const Node& node) {
    if (IsStandard(node, "Conv")) return 0;
    return IsStandard(node, "ConvTranspose") && node.Int("group", 1) == 1 ? 1 : -1;
  }

  void Fold(size_t index) {
    Node conv = editor_.node(index);
    if (!conv.HasInput(1)) return;
    const Tensor* weight = editor_.Constant(conv.inputs[1]);
    const Tensor* bias = conv.HasInput(2) ? editor_.Constant(conv.inputs[2]) : nullptr;
    if (!weight || weight->dtype() != DType::kFloat || weight->rank() < 3 || (conv.HasInput(2) && !bias)) return;
    auto axis = static_cast<size_t>(FeatureAxis(conv));
    int64_t channels = weight->dim(axis);
    if (bias && (bias->dtype() != DType::kFloat || !(bias->shape() == Shape{channels}))) return;
    Scaling scaling(static_cast<size_t>(channels));
    size_t place = index;
    for (int reader; (reader = Take(conv.outputs[0], weight->rank(), scaling)) >= 0;) {
      editor_.Remove(place);
      place = static_cast<size_t>(reader);
      conv.outputs[0] = editor_.node(place).outputs[0];
    }
    if (place == index) return;
    conv.inputs.resize(3);
    // Both are made before either is added: adding moves the constants that are there.
    Tensor new_weight = scaling.has_scale ? Scaled(*weight, axis, scaling) : Tensor();
    Tensor new_bias = Shifted(bias, scaling);
    if (new_weight.defined()) conv.inputs[1] = editor_.AddConstant(conv.inputs[1] + "_scaled", std::move(new_weight));
    std::string hint = conv.inputs[2].empty() ? conv.outputs[0] + "_bias" : conv.inputs[2] + "_scaled";
    conv.inputs[2] = editor_.AddConstant(hint, std::move(new_bias));
    editor_.Replace(place, std::move(conv));
  }

  // The product or sum that alone reads the value, taken into the scaling; -1 when there is none.
  int Take(const std::string& value, size_t rank, Scaling& scaling) const {
    int reader = editor_.OnlyReader(value);
    if (reader < 0) return -1;
    const Node& node = editor_.node(static_cast<size_t>(reader));
    bool is_product = IsStandard(node, "Mul");
    if ((!is_product && !IsStandard(node, "Add")) || node.inputs[0] == node.inputs[1]) return -1;
    const Tensor* constant = PerChannel(node.inputs[node.inputs[0] == value ? 1 : 0], rank, scaling.scale.size());
    if (!constant) return -1;
    for (size_t c = 0; c < scaling.scale.size(); ++c) {
      double number = constant->Data<float>()[constant->size() == 1 ? 0 : c];
      (is_product ? scaling.scale[c] *= number : scaling.shift[c] += number);
      if (is_product) scaling.shift[c] *= number;
    }
    scaling.has_scale |= is_product;
    return reader;
  }

  // One number, or one for each channel of an image of this rank; null when it is anything else.
  const Tensor* PerChannel(const std::string& name, size_t rank, size_t channels) const {
    const Tensor* constant = editor_.Constant(name);
    if (!constant || constant->dtype() != DType::kFloat || constant->rank() > rank) return nullptr;
    if (constant->size() == 1) return constant;
    size_t missing = rank - constant->rank();
    bool fits = missing <= 1 && constant->size() == static_cast<int64_t>(channels) &&
                constant->dim(1 - missing) == constant->size();
    return fits ? constant : nullptr;
  }

  static Tensor Scaled(const Tensor& stored, size_t axis, const Scaling& scaling) {
    const Tensor tensor = Readable(stored);
    Tensor scaled(DType::kFloat, tensor.shape());
    int64_t inner = tensor.shape().CountBetween(axis + 1, tensor.rank()), channels = tensor.dim(axis);
    float* to = scaled.MutableData<float>();
    TakePages(to, scaled.bytes());
    for (int64_t begin = 0; begin < tensor.size(); begin += inner)
      ScaleFloats(tensor.Data<float>() + begin, static_cast<size_t>(inner),
                  scaling.scale[static_cast<size_t>(begin / inner % channels)], to + begin);
    return scaled;
  }

  static Tensor Shifted(const Tensor* bias, const Scaling& scaling) {
    std::vector<float> shifted(scaling.scale.size());
    for (size_t c = 0; c < shifted.size(); ++c)
      shifted[c] =
          static_cast<float>((bias ? double{bias->Data<float>()[c]} : 0.0) * scaling.scale[c] + scaling.shift[c]);
    return Tensor::FromVector(shifted);
  }

  GraphEditor editor_;
};

}  // namespace

bool FoldScaling(Graph& graph) {
  return HasAny(graph, {"Conv", "ConvTranspose"}) && HasAny(graph, {"Mul", "Add"}) && Folding(graph).Run();
}

}  // namespace ferry
