#include <algorithm>
#include <set>

#include "convert/quantize/scheme.h"
#include "graph/editor.h"
#include "graph/standard.h"
#include "ops/traits.h"

namespace ferry::quantize {
namespace {

constexpr int64_t kSmallestTable = 4096;  // elements of a table worth coding

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), editor_(const_cast<Graph&>(graph)) {}

  std::vector<Layer> Run() {
    std::vector<Layer> layers;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Layer layer;
      layer.node = i;
      const Node& node = graph_.nodes[i];
      if (!Match(node, layer)) continue;
      layer.op = node.op_type;
      layer.output = node.outputs[0];
      layer.name = node.name.empty() ? layer.output : node.name;
      layer.work = Work(layer);
      layers.push_back(std::move(layer));
    }
    return layers;
  }

 private:
  const Tensor* Weight(const Node& node, size_t input) const {
    const Tensor* weight = node.HasInput(input) ? editor_.Constant(node.inputs[input]) : nullptr;
    return weight && weight->dtype() == DType::kFloat && weight->size() > 0 ? weight : nullptr;
  }

  bool Match(const Node& node, Layer& layer) const {
    if (node.outputs.empty() || node.outputs[0].empty()) return false;
    if (IsStandard(node, {"Conv", "ConvTranspose"})) return MatchConv(node, layer);
    if (IsStandard(node, {"MatMul", "Gemm"})) return MatchProduct(node, layer);
    if (IsStandard(node, {"LSTM", "GRU", "RNN"})) return MatchRecurrent(node, layer);
    if (IsStandard(node, "Gather")) return MatchLookup(node, layer);
    return false;
  }

  bool MatchConv(const Node& node, Layer& layer) const {
    const Tensor* weight = Weight(node, 1);
    if (!weight || weight->rank() < 3) return false;
    const bool is_transposed = node.op_type == "ConvTranspose";
    layer.kind = is_transposed ? LayerKind::kConvTranspose : LayerKind::kConv;
    layer.axis = is_transposed ? 1 : 0;
    layer.channels = weight->dim(layer.axis);
    layer.depth = weight->size() / layer.channels;
    layer.groups = std::max<int64_t>(1, node.Int("group", 1));
    layer.input = node.inputs[0];
    layer.weights = {node.inputs[1]};
    const Tensor* bias = is_transposed ? nullptr : Weight(node, 2);
    if (bias && bias->size() == layer.channels) layer.bias = node.inputs[2];
    return true;
  }

  bool MatchProduct(const Node& node, Layer& layer) const {
    const Tensor* weight = Weight(node, 1);
    if (!weight || weight->rank() != 2 || editor_.Constant(node.inputs[0])) return false;
    const bool is_gemm = node.op_type == "Gemm";
    if (is_gemm && (node.Float("alpha", 1) != 1 || node.Float("beta", 1) != 1 || node.Int("transA", 0) != 0))
      return false;
    layer.axis = is_gemm && node.Int("transB", 0) != 0 ? 0 : 1;
    layer.channels = weight->dim(layer.axis);
    layer.depth = weight->dim(1 - layer.axis);
    layer.input = node.inputs[0];
    layer.weights = {node.inputs[1]};
    if (is_gemm) {
      const Tensor* bias = Weight(node, 2);
      const bool is_row = bias && bias->size() == layer.channels && bias->shape().back() == layer.channels;
      if (node.HasInput(2) && !is_row) return false;
      if (is_row) layer.bias = node.inputs[2];
      return true;
    }
    FindAddedBias(node, layer);
    return true;
  }

  // A bias in a node of its own.
  void FindAddedBias(const Node& node, Layer& layer) const {
    const int reader = editor_.OnlyReader(node.outputs[0]);
    if (reader < 0 || !IsStandard(editor_.node(static_cast<size_t>(reader)), "Add")) return;
    const Node& add = editor_.node(static_cast<size_t>(reader));
    const size_t side = add.inputs[0] == node.outputs[0] ? 1 : 0;
    const Tensor* bias = Weight(add, side);
    if (!bias || bias->rank() > 3 || bias->size() != layer.channels || bias->shape().back() != layer.channels) return;
    layer.bias = add.inputs[side];
    layer.bias_adder = reader;
  }

  bool MatchRecurrent(const Node& node, Layer& layer) const {
    const Tensor *weight = Weight(node, 1), *recurrence = Weight(node, 2);
    if (!weight || !recurrence || weight->rank() != 3 || recurrence->rank() != 3) return false;
    layer.kind = LayerKind::kRecurrent;
    layer.channels = weight->dim(0) * weight->dim(1);
    layer.depth = weight->dim(2) + recurrence->dim(2);
    layer.input = node.inputs[0];
    layer.weights = {node.inputs[1], node.inputs[2]};
    return recurrence->dim(0) * recurrence->dim(1) == layer.channels;
  }

  bool MatchLookup(const Node& node, Layer& layer) const {
    const Tensor* table = Weight(node, 0);
    if (!table || table->rank() != 2 || table->size() < kSmallestTable || node.Int("axis", 0) != 0) return false;
    if (editor_.Constant(node.inputs[1])) return false;
    layer.kind = LayerKind::kLookup;
    layer.channels = table->dim(0);
    layer.depth = table->dim(1);
    layer.input = node.inputs[1];
    layer.weights = {node.inputs[0]};
    return true;
  }

  // Multiply-adds with open dimensions taken as 1.
  double Work(const Layer& layer) const {
    if (layer.kind == LayerKind::kLookup) return 0;
    double elements = 1;
    for (const ValueInfo& info : graph_.value_infos)
      if (info.name == layer.output && info.type.shape)
        for (const Dim& dim : *info.type.shape) elements *= dim.known() ? static_cast<double>(*dim.value) : 1.0;
    return elements * static_cast<double>(layer.depth);
  }

  const Graph& graph_;
  GraphEditor editor_;
};

// Which nodes work on codes when these layers do.
class Regions {
 public:
  Regions(const Graph& graph, const std::vector<Layer>& layers, const std::vector<Way>& ways,
          const Conventions& conventions)
      : graph_(graph), editor_(const_cast<Graph&>(graph)), conventions_(conventions), layers_(layers) {
    for (size_t i = 0; i < layers.size(); ++i) {
      if (ways[i] != Way::kStatic) continue;
      coded_.insert(layers[i].node);
      inputs_.insert({layers[i].node, layers[i].input});
      if (layers[i].bias_adder >= 0) coded_.insert(static_cast<size_t>(layers[i].bias_adder));
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      if (MayCarry(graph.nodes[i])) carriers_.insert(i);
    while (DropOne()) {
    }
  }

  CodedValues Values() const {
    std::set<std::string> names;
    for (const auto& [node, input] : inputs_) names.insert(input);
    for (size_t node : carriers_) {
      const std::string fresh = FreshAddend(node);
      for (const std::string& input : graph_.nodes[node].inputs)
        if (!input.empty() && input != fresh && !editor_.Constant(input)) names.insert(input);
    }
    CodedValues values;
    values.names.assign(names.begin(), names.end());
    for (const std::string& name : names) values.everywhere[name] = IsMadeOfCodes(name);
    for (size_t node : carriers_)
      for (const std::string& input : graph_.nodes[node].inputs) values.everywhere[input] = true;
    return values;
  }

 private:
  bool MayCarry(const Node& node) const {
    if (node.outputs.size() != 1) return false;
    if (IsStandard(node, "Add")) return !editor_.Constant(node.inputs[0]) && !editor_.Constant(node.inputs[1]);
    if (IsStandard(node, "Concat")) {
      auto is_constant = [&](const std::string& input) { return editor_.Constant(input) != nullptr; };
      return conventions_.concats && std::none_of(node.inputs.begin(), node.inputs.end(), is_constant);
    }
    if (IsStandard(node, "ReduceMean")) return node.inputs.size() == 2 && editor_.Constant(node.inputs[1]) != nullptr;
    return IsStandard(node, {"MaxPool", "GlobalAveragePool"});
  }

  // The addend that a layer makes for this sum alone, which readers like to add before anything is rounded.
  std::string FreshAddend(size_t node) const {
    if (conventions_.whole_sums || !IsStandard(graph_.nodes[node], "Add")) return {};
    for (const std::string& input : graph_.nodes[node].inputs) {
      const int producer = editor_.Producer(input);
      if (producer >= 0 && coded_.count(static_cast<size_t>(producer)) && editor_.Uses(input) == 1) return input;
    }
    return {};
  }

  static bool PassesOn(const Node& node) {
    return node.HasInput(0) && node.outputs.size() == 1 &&
           (IsStandard(node, {"Relu", "Clip"}) || TraitsOf(node).moves_elements);
  }

  bool IsMadeOfCodes(const std::string& value) const {
    int producer = editor_.Producer(value);
    while (producer >= 0) {
      const size_t at = static_cast<size_t>(producer);
      if (coded_.count(at) || carriers_.count(at)) return true;
      if (!PassesOn(graph_.nodes[at])) return false;
      producer = editor_.Producer(graph_.nodes[at].inputs[0]);
    }
    return false;
  }

  bool ReachesCodes(const std::string& value, int depth = 0) const {
    if (depth > 16) return false;
    for (size_t reader : editor_.Readers(value)) {
      if (carriers_.count(reader)) return true;
      auto layer = inputs_.find(reader);
      if (layer != inputs_.end() && layer->second == value) return true;
      if (PassesOn(graph_.nodes[reader]) && ReachesCodes(graph_.nodes[reader].outputs[0], depth + 1)) return true;
    }
    return false;
  }

  bool DropOne() {
    for (size_t node : carriers_) {
      bool holds = ReachesCodes(graph_.nodes[node].outputs[0]);
      for (size_t i = 0; i < graph_.nodes[node].inputs.size() && holds; ++i)
        holds = editor_.Constant(graph_.nodes[node].inputs[i]) || IsMadeOfCodes(graph_.nodes[node].inputs[i]);
      if (holds) continue;
      carriers_.erase(node);
      return true;
    }
    return false;
  }

  const Graph& graph_;
  GraphEditor editor_;
  const Conventions& conventions_;
  const std::vector<Layer>& layers_;
  std::set<size_t> coded_, carriers_;     // nodes
  std::map<size_t, std::string> inputs_;  // of static layers
};

}  // namespace

const char* Name(Way way) {
  switch (way) {
    case Way::kFloat: return "float32";
    case Way::kHalfWeights: return "float16 weights";
    case Way::kWeights: return "weights";
    case Way::kDynamic: return "dynamic";
    case Way::kStatic: return "static";
  }
  return "";
}

const char* Name(Reader reader) {
  switch (reader) {
    case Reader::kCpu: return "cpu";
    case Reader::kOnnxRuntime: return "onnxruntime";
    case Reader::kTensorRt: return "tensorrt";
    case Reader::kTfLite: return "tflite";
  }
  return "";
}

Conventions Conventions::For(Reader reader) {
  Conventions how;
  how.reader = reader;
  switch (reader) {
    case Reader::kCpu: break;
    case Reader::kOnnxRuntime: how.whole_bias = true; break;
    case Reader::kTensorRt:
      how.signed_activations = how.symmetric_activations = true;
      how.dynamic = how.weights_only = how.concats = how.halves = how.whole_sums = false;
      break;
    case Reader::kTfLite:
      how.signed_activations = how.whole_bias = true;
      how.dynamic = how.halves = false;
      break;
  }
  return how;
}

float Coding::low() const {
  const int32_t least = type == DType::kUInt8 ? 0 : -128;
  return scale * static_cast<float>(least - zero);
}
float Coding::high() const {
  const int32_t most = type == DType::kUInt8 ? 255 : 127;
  return scale * static_cast<float>(most - zero);
}

std::vector<Layer> FindLayers(const Graph& graph) { return Finder(graph).Run(); }

std::string LayersInBodies(const Graph& graph) {
  int64_t count = 0;
  for (const Node& node : graph.nodes)
    ForEachSubgraph(node, [&](const Graph& body) {
      ForEachGraph(body, [&](const Graph& inner) {
        for (const Node& one : inner.nodes)
          count += IsStandard(one, {"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN"});
      });
    });
  if (count == 0) return {};
  return Cat(count, count == 1 ? " layer" : " layers", " in bodies of If, Loop or Scan: left as they are");
}

CodedValues FindCodedValues(const Graph& graph, const std::vector<Layer>& layers, const std::vector<Way>& ways,
                            const Conventions& conventions) {
  return Regions(graph, layers, ways, conventions).Values();
}

std::vector<float> ToMatrix(const Layer& layer, const Tensor& weight) {
  const float* from = weight.Data<float>();
  const size_t axis = layer.kind == LayerKind::kRecurrent ? 0 : layer.axis;
  if (axis == 0) return {from, from + weight.size()};
  const int64_t outer = weight.shape().CountBetween(0, axis), rows = weight.dim(axis),
                inner = weight.shape().CountBetween(axis + 1, weight.rank());
  std::vector<float> matrix(static_cast<size_t>(weight.size()));
  // Tile by tile, so that what is written lies near what is read.
  constexpr int64_t kTile = 32;
  for (int64_t first = 0; first < outer; first += kTile)
    for (int64_t top = 0; top < rows; top += kTile)
      for (int64_t o = first; o < std::min(outer, first + kTile); ++o)
        for (int64_t r = top; r < std::min(rows, top + kTile); ++r)
          for (int64_t i = 0; i < inner; ++i)
            matrix[static_cast<size_t>((r * outer + o) * inner + i)] = from[(o * rows + r) * inner + i];
  return matrix;
}

Tensor ToCodes(const Layer& layer, const CodedMatrix& matrix, const Shape& shape, DType type) {
  Tensor codes(DType::kUInt8, shape);
  uint8_t* out = codes.MutableData<uint8_t>();
  const uint8_t shift = IsSignedInteger(type) ? static_cast<uint8_t>(matrix.middle()) : 0;
  const size_t axis = layer.kind == LayerKind::kRecurrent ? 0 : layer.axis;
  const int64_t outer = shape.CountBetween(0, axis), inner = shape.CountBetween(axis + 1, shape.rank());
  if (axis == 0) {
    for (size_t i = 0; i < matrix.codes.size(); ++i) out[i] = static_cast<uint8_t>(matrix.codes[i] - shift);
  } else {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t r = 0; r < matrix.rows; ++r)
        for (int64_t i = 0; i < inner; ++i)
          *out++ = static_cast<uint8_t>(matrix.codes[static_cast<size_t>((r * outer + o) * inner + i)] - shift);
  }
  if (BitWidth(type) == 8) return codes.ViewedAs(type);
  return Tensor::Pack(type, type == DType::kInt4 ? codes.ViewedAs(DType::kInt8) : codes);
}

}  // namespace ferry::quantize
