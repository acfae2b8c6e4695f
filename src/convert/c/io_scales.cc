#include "convert/c/io_scales.h"

#include <optional>

#include "graph/standard.h"

namespace ferry::c {
namespace {

const Tensor* OneNumber(const Graph& graph, const Node& node, size_t input) {
  const StoredTensor* stored = node.HasInput(input) ? graph.FindInitializer(node.inputs[input]) : nullptr;
  return stored && stored->Get().size() == 1 ? &stored->Get() : nullptr;
}

std::optional<int64_t> Integer(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kInt8: return tensor.Data<int8_t>()[0];
    case DType::kUInt8: return tensor.Data<uint8_t>()[0];
    case DType::kInt16: return tensor.Data<int16_t>()[0];
    case DType::kUInt16: return tensor.Data<uint16_t>()[0];
    default: return std::nullopt;
  }
}

// The scale at `input` and the zero point after it, which may be left out.
std::optional<IoScale> ScaleAt(const Graph& graph, const Node& node, size_t input) {
  const Tensor* scale = OneNumber(graph, node, input);
  if (!scale || scale->dtype() != DType::kFloat) return std::nullopt;
  IoScale found{scale->Data<float>()[0], 0};
  if (!node.HasInput(input + 1)) return found;
  const Tensor* zero = OneNumber(graph, node, input + 1);
  const std::optional<int64_t> number = zero ? Integer(*zero) : std::nullopt;
  if (!number) return std::nullopt;
  found.zero_point = *number;
  return found;
}

// Of the value that this node reads at `input`.
std::optional<IoScale> ScaleOfInput(const Graph& graph, const Node& node, size_t input) {
  const bool product = IsStandard(node, "QLinearMatMul");
  if (input == 0 && IsStandard(node, {"DequantizeLinear", "QLinearConv", "QLinearMatMul"}))
    return ScaleAt(graph, node, 1);
  if (input == 3 && (product || IsStandard(node, "QLinearConv"))) return ScaleAt(graph, node, 4);
  return std::nullopt;
}

std::optional<IoScale> ScaleOfOutput(const Graph& graph, const Node& node) {
  if (IsStandard(node, "QuantizeLinear")) return ScaleAt(graph, node, 1);
  if (IsStandard(node, {"QLinearConv", "QLinearMatMul"})) return ScaleAt(graph, node, 6);
  return std::nullopt;
}

}  // namespace

std::map<std::string, IoScale> FindIoScales(const Graph& graph) {
  std::map<std::string, IoScale> found;
  for (const ValueInfo& input : graph.inputs) {
    std::optional<IoScale> scale;
    bool same = true;
    for (const Node& node : graph.nodes)
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != input.name) continue;
        const std::optional<IoScale> here = ScaleOfInput(graph, node, i);
        same &= here && (!scale || (scale->scale == here->scale && scale->zero_point == here->zero_point));
        scale = here;
      }
    if (same && scale) found.emplace(input.name, *scale);
  }
  for (const Node& node : graph.nodes)
    for (const ValueInfo& output : graph.outputs)
      if (node.HasOutput(0) && node.outputs[0] == output.name)
        if (const std::optional<IoScale> scale = ScaleOfOutput(graph, node)) found.emplace(output.name, *scale);
  return found;
}

}  // namespace ferry::c
