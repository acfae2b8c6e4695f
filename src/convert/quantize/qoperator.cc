#include "convert/quantize/qoperator.h"

#include <cmath>

#include "passes/match.h"

namespace ferry::quantize {
namespace {

class Folding {
 public:
  explicit Folding(Graph& graph) : editor_(graph) {}

  void Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i)
      if (!editor_.removed(i) && IsStandard(editor_.node(i), "QuantizeLinear")) Fold(i);
    editor_.Finish();
  }

 private:
  // A Relu or Clip before the codes goes when the codes cannot hold what it cuts off.
  bool Cuts(const Node& node, const Node& quantize) const {
    const auto scale = ScalarConstant(editor_, quantize.inputs[1]);
    const Tensor* zero = quantize.HasInput(2) ? editor_.Constant(quantize.inputs[2]) : nullptr;
    if (!scale || !zero || zero->size() != 1 || zero->dtype() != DType::kUInt8) return false;
    const float point = *zero->Data<uint8_t>(), low = -point * *scale, high = (255 - point) * *scale;
    if (IsStandard(node, "Relu")) return low >= 0;
    if (!IsStandard(node, "Clip")) return false;
    const auto least = node.HasInput(1) ? ScalarConstant(editor_, node.inputs[1]) : -INFINITY;
    const auto most = node.HasInput(2) ? ScalarConstant(editor_, node.inputs[2]) : INFINITY;
    return least && most && low >= *least && high <= *most * 1.0001f;
  }

  void Fold(size_t index) {
    const Node quantize = editor_.node(index);
    std::string value = quantize.inputs[0];
    std::vector<size_t> gone;
    int producer = editor_.Producer(value);
    while (producer >= 0 && editor_.Uses(value) == 1 && Cuts(editor_.node(static_cast<size_t>(producer)), quantize)) {
      gone.push_back(static_cast<size_t>(producer));
      value = editor_.node(static_cast<size_t>(producer)).inputs[0];
      producer = editor_.Producer(value);
    }
    if (producer < 0 || editor_.Uses(value) != 1) return;
    const Node core = editor_.node(static_cast<size_t>(producer));
    const bool is_conv = IsStandard(core, "Conv");
    if (!is_conv && !IsStandard(core, "MatMul")) return;
    const Node *x = MadeBy(editor_, core.inputs[0], "DequantizeLinear"),
               *w = MadeBy(editor_, core.inputs[1], "DequantizeLinear");
    if (!x || !w || !x->HasInput(2) || w->Has("block_size")) return;
    Node made = core;
    made.op_type = is_conv ? "QLinearConv" : "QLinearMatMul";
    made.inputs = {x->inputs[0], x->inputs[1], x->inputs[2],       w->inputs[0],
                   w->inputs[1], ZeroOf(*w),   quantize.inputs[1], quantize.inputs[2]};
    if (is_conv && core.HasInput(2)) {
      const Node* bias = MadeBy(editor_, core.inputs[2], "DequantizeLinear");
      if (!bias) return;
      made.inputs.push_back(bias->inputs[0]);
    }
    made.outputs = quantize.outputs;
    gone.push_back(static_cast<size_t>(producer));
    for (size_t node : gone) editor_.Remove(node);
    editor_.Replace(index, std::move(made));
  }

  std::string ZeroOf(const Node& weight) {
    if (weight.HasInput(2)) return weight.inputs[2];
    const Tensor* scale = editor_.Constant(weight.inputs[1]);
    return editor_.AddConstant(weight.inputs[0] + "_z", Tensor::Zeros(DType::kInt8, scale->shape()));
  }

  GraphEditor editor_;
};

}  // namespace

Model ToQOperators(const Model& model) {
  Model made = CopyDeep(model);
  Folding(made.graph).Run();
  return made;
}

}  // namespace ferry::quantize
