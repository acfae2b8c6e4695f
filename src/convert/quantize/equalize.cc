#include "convert/quantize/equalize.h"

#include <algorithm>
#include <cmath>

#include "graph/editor.h"
#include "graph/standard.h"
#include "tensor/alignment.h"

namespace ferry::quantize {
namespace {

class Equalizer {
 public:
  Equalizer(Model& base, const std::vector<Layer>& layers, const Observations& seen)
      : editor_(base.graph), layers_(layers), seen_(seen) {
    for (size_t i = 0; i < layers.size(); ++i) by_node_[layers[i].node] = i;
  }

  bool Smooth() {
    bool changed = false;
    for (size_t i = 0; i < editor_.size(); ++i) {
      const Node& node = editor_.node(i);
      if (IsStandard(node, "LayerNormalization") && node.outputs.size() == 1) changed |= SmoothBehind(node);
    }
    return Finish(changed);
  }

  bool Equalize() {
    bool changed = false;
    for (const Layer& layer : layers_)
      if (layer.kind == LayerKind::kConv) changed |= EqualizeBefore(layer);
    return Finish(changed);
  }

 private:
  bool Finish(bool changed) {
    for (auto& [name, tensor] : changed_)
      for (StoredTensor& stored : editor_.graph().initializers)
        if (stored.name == name) stored = MakeStored(name, tensor);
    return changed;
  }

  // A weight to be changed; null when someone else reads it.
  Tensor* Mine(const std::string& name) {
    const Tensor* constant = editor_.Constant(name);
    if (!constant || constant->dtype() != DType::kFloat || editor_.Uses(name) != 1) return nullptr;
    auto [found, is_new] = changed_.try_emplace(name);
    if (is_new) found->second = Readable(*constant).Clone();
    return &found->second;
  }

  // Largest weight that each input channel meets; `in_channels` of a weight whose groups are one.
  static std::vector<float> LargestByInput(const Layer& layer, const Tensor& weight, int64_t inputs) {
    std::vector<float> largest(static_cast<size_t>(inputs), 0.0f);
    const std::vector<float> matrix = ToMatrix(layer, weight);
    const int64_t taps = layer.depth / inputs;
    for (int64_t row = 0; row < layer.channels; ++row)
      for (int64_t i = 0; i < layer.depth; ++i) {
        float& most = largest[static_cast<size_t>(i / taps)];
        most = std::max(most, std::abs(matrix[static_cast<size_t>(row * layer.depth + i)]));
      }
    return largest;
  }

  static void ScaleInputs(const Layer& layer, Tensor& weight, const std::vector<float>& factors) {
    const int64_t inputs = static_cast<int64_t>(factors.size()), taps = layer.depth / inputs;
    float* w = weight.MutableData<float>();
    for (int64_t i = 0; i < weight.size(); ++i) {
      const int64_t column = layer.axis == 0 ? i % layer.depth / taps : i / layer.channels;
      w[i] *= factors[static_cast<size_t>(column)];
    }
  }

  // How much smaller each channel is to be: half of its surplus goes into the weights.
  static std::vector<float> Factors(const std::vector<float>& activations, const std::vector<float>& weights) {
    std::vector<float> factors(activations.size(), 1.0f);
    double mean = 0;
    for (size_t i = 0; i < factors.size(); ++i) {
      if (activations[i] > 0 && weights[i] > 0) factors[i] = std::sqrt(activations[i] / weights[i]);
      mean += std::log(factors[i]) / static_cast<double>(factors.size());
    }
    for (float& factor : factors) factor = std::clamp(static_cast<float>(factor / std::exp(mean)), 0.05f, 20.0f);
    return factors;
  }

  bool SmoothBehind(const Node& norm) {
    const std::string& value = norm.outputs[0];
    auto seen = seen_.find(value);
    const std::vector<size_t>& readers = editor_.Readers(value);
    if (seen == seen_.end() || readers.empty() || readers.size() != editor_.Uses(value)) return false;
    const std::vector<float>& largest = seen->second.channel_largest();
    std::vector<const Layer*> products;
    for (size_t reader : readers) {
      auto layer = by_node_.find(reader);
      if (layer == by_node_.end() || layers_[layer->second].kind != LayerKind::kProduct) return false;
      products.push_back(&layers_[layer->second]);
      if (products.back()->input != value || products.back()->depth != static_cast<int64_t>(largest.size()))
        return false;
    }
    std::vector<float> weights(largest.size(), 0.0f);
    for (const Layer* layer : products) {
      const Tensor* weight = Mine(layer->weights[0]);
      if (!weight) return false;
      const std::vector<float> one = LargestByInput(*layer, *weight, layer->depth);
      for (size_t i = 0; i < one.size(); ++i) weights[i] = std::max(weights[i], one[i]);
    }
    Tensor* gain = norm.HasInput(1) ? Mine(norm.inputs[1]) : nullptr;
    Tensor* shift = norm.HasInput(2) ? Mine(norm.inputs[2]) : nullptr;
    const bool fits = gain && gain->size() == static_cast<int64_t>(largest.size()) &&
                      (!norm.HasInput(2) || (shift && shift->size() == gain->size()));
    if (!fits) return false;
    const std::vector<float> factors = Factors(largest, weights);
    for (size_t i = 0; i < factors.size(); ++i) {
      gain->MutableData<float>()[i] /= factors[i];
      if (shift) shift->MutableData<float>()[i] /= factors[i];
    }
    for (const Layer* layer : products) ScaleInputs(*layer, *Mine(layer->weights[0]), factors);
    return true;
  }

  bool EqualizeBefore(const Layer& layer) {
    if (layer.groups != 1 || editor_.OnlyReader(layer.input) != static_cast<int>(layer.node)) return false;
    int producer = editor_.Producer(layer.input);
    if (producer >= 0 && IsStandard(editor_.node(static_cast<size_t>(producer)), "Relu")) {
      const std::string& before = editor_.node(static_cast<size_t>(producer)).inputs[0];
      if (editor_.OnlyReader(before) != producer) return false;
      producer = editor_.Producer(before);
    }
    auto source = producer < 0 ? by_node_.end() : by_node_.find(static_cast<size_t>(producer));
    auto seen = seen_.find(layer.input);
    if (source == by_node_.end() || seen == seen_.end()) return false;
    const Layer& from = layers_[source->second];
    const std::vector<float>& largest = seen->second.channel_largest();
    if (from.kind != LayerKind::kConv || from.channels != static_cast<int64_t>(largest.size()) ||
        layer.depth % from.channels != 0)
      return false;
    if (editor_.node(from.node).HasInput(2) && from.bias.empty()) return false;
    Tensor *first = Mine(from.weights[0]), *second = Mine(layer.weights[0]);
    Tensor* bias = from.bias.empty() ? nullptr : Mine(from.bias);
    if (!first || !second || (!from.bias.empty() && !bias)) return false;
    const std::vector<float> factors = Factors(largest, LargestByInput(layer, *second, from.channels));
    const int64_t row = first->size() / from.channels;
    for (int64_t c = 0; c < from.channels; ++c) {
      const float factor = factors[static_cast<size_t>(c)];
      for (int64_t i = 0; i < row; ++i) first->MutableData<float>()[c * row + i] /= factor;
      if (bias) bias->MutableData<float>()[c] /= factor;
    }
    ScaleInputs(layer, *second, factors);
    return true;
  }

  GraphEditor editor_;
  const std::vector<Layer>& layers_;
  const Observations& seen_;
  std::map<size_t, size_t> by_node_;
  std::map<std::string, Tensor> changed_;
};

}  // namespace

bool SmoothActivations(Model& base, const std::vector<Layer>& layers, const Observations& seen) {
  return Equalizer(base, layers, seen).Smooth();
}

bool EqualizeLayers(Model& base, const std::vector<Layer>& layers, const Observations& seen) {
  return Equalizer(base, layers, seen).Equalize();
}

}  // namespace ferry::quantize
