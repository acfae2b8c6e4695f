// Pairs of QuantizeLinear and DequantizeLinear at places where the target makes nothing of them.
#include <map>

#include "doctor/lint.h"
#include "measure/elements.h"

namespace ferry {
namespace {

class Placement {
 public:
  Placement(const Patient& patient, const Target& target, FindingList& findings)
      : patient_(patient), target_(target), findings_(findings) {
    for (const Node& node : patient.model().graph.nodes)
      for (const std::string& output : node.outputs)
        if (!output.empty()) producers_[output] = &node;
  }

  void Run() {
    for (const Node& node : patient_.model().graph.nodes) {
      if (IsStandard(node, {"Conv", "ConvTranspose", "MatMul", "Gemm"})) LookAtProduct(node);
      if (IsStandard(node, {"Relu", "BatchNormalization"})) LookAtFollower(node);
      if (IsStandard(node, "QuantizeLinear")) LookAtActivation(node);
      if (IsStandard(node, "Concat")) LookAtConcat(node);
    }
  }

 private:
  const Node* Decoder(const Node& node, size_t input) const {
    auto found = node.HasInput(input) ? producers_.find(node.inputs[input]) : producers_.end();
    return found != producers_.end() && IsStandard(*found->second, "DequantizeLinear") ? found->second : nullptr;
  }

  void Tell(const Node& node, const std::string& what, Severity severity = Severity::kWarning) {
    Finding& finding = findings_.Add(PlaceOf(node), Cat("on ", target_.title, " ", what));
    finding.severity = severity;
    finding.evidence = {{"target", target_.name}};
  }

  void LookAtProduct(const Node& node) {
    const Node *input = Decoder(node, 0), *weight = Decoder(node, 1);
    const Tensor* codes = weight && weight->HasInput(0) ? patient_.ConstantOf(weight->inputs[0]) : nullptr;
    if (!codes || BitWidth(codes->dtype()) != 8) return;
    if (!input) return Tell(node, "computes in float: its weight comes in eight bits, its input does not");
    const Tensor* scale = weight->HasInput(1) ? patient_.ConstantOf(weight->inputs[1]) : nullptr;
    if (!scale || scale->size() <= 1) return;
    const auto rank = static_cast<int64_t>(codes->rank());
    int64_t axis = weight->Int("axis", 1), wanted = 0;
    if (axis < 0) axis += rank;
    if (IsStandard(node, "ConvTranspose")) wanted = 1;
    if (IsStandard(node, "MatMul")) wanted = rank - 1;
    if (IsStandard(node, "Gemm")) wanted = node.Int("transB", 0) != 0 ? 0 : 1;
    if (axis != wanted)
      Tell(node, Cat("wants the scales of its weight along axis ", wanted, ", the output channels, not ", axis));
  }

  void LookAtFollower(const Node& node) {
    const Node* decoder = Decoder(node, 0);
    auto quantize = decoder && decoder->HasInput(0) ? producers_.find(decoder->inputs[0]) : producers_.end();
    if (quantize == producers_.end() || !quantize->second->HasInput(0)) return;
    auto layer = producers_.find(quantize->second->inputs[0]);
    if (layer != producers_.end() && IsStandard(*layer->second, {"Conv", "ConvTranspose"}))
      Tell(node, "does not become one with the convolution before it: codes stand between them", Severity::kNote);
  }

  void LookAtActivation(const Node& node) {
    if (!node.HasInput(0) || patient_.ConstantOf(node.inputs[0])) return;
    const Tensor* scale = node.HasInput(1) ? patient_.ConstantOf(node.inputs[1]) : nullptr;
    if (scale && scale->size() > 1) Tell(node, "takes one scale for an activation, not one for each channel");
  }

  void LookAtConcat(const Node& node) {
    std::map<double, int> scales;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Node* decoder = Decoder(node, i);
      const Tensor* scale = decoder && decoder->HasInput(1) ? patient_.ConstantOf(decoder->inputs[1]) : nullptr;
      if (scale && scale->size() == 1) ++scales[ToDoubles(*scale)[0]];
    }
    if (scales.size() > 1)
      Tell(node, "joins codes of different scales: one for all inputs saves them", Severity::kNote);
  }

  const Patient& patient_;
  const Target& target_;
  FindingList& findings_;
  std::map<std::string, const Node*> producers_;
};

void Look(const Patient& patient, FindingList& findings) {
  for (const Target& target : patient.targets())
    if (target.name == "tensorrt") Placement(patient, target, findings).Run();
}

}  // namespace

extern const Lint lint_quantization_placement;
constinit const Lint lint_quantization_placement = {
    .name = "quantization-placement",
    .meaning = "QuantizeLinear and DequantizeLinear stand where TensorRT computes with codes.",
    .remedy = "Quantise the float model with 'ferry quantize --for tensorrt'.",
    .look = Look,
};

}  // namespace ferry
