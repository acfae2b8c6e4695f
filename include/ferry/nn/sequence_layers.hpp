// Layers over sequences: LSTM, GRU, attention.
#pragma once

#include <limits>

#include "ferry/nn/simple_layers.hpp"

namespace ferry {
inline namespace api_v1 {
namespace nn {

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  // between layers, while training
  bool bidirectional = false;
};

namespace detail {

// What LSTM and GRU share: their parameters, and running layer after layer.
class Recurrent : public Module {
 public:
  struct Layer {
    Tensor output, h, c;  // c: LSTM only
  };

  Recurrent(const char* op_type, std::vector<size_t> gate_order, int64_t input_size, int64_t hidden_size,
            const RecurrentOptions& options)
      : op_type_(op_type),
        gate_order_(std::move(gate_order)),
        input_size_(input_size),
        hidden_(hidden_size),
        options_(options) {
    RequirePositive({input_size, hidden_size, options.num_layers});
    double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
    int64_t rows = static_cast<int64_t>(gate_order_.size()) * hidden_size;
    for (int64_t layer = 0; layer < options.num_layers; ++layer) {
      int64_t width = layer == 0 ? input_size : hidden_size * directions();
      for (int64_t direction = 0; direction < directions(); ++direction) {
        std::string suffix = "_l" + std::to_string(layer) + (direction ? "_reverse" : "");
        Weights weights;
        weights.ih = register_parameter("weight_ih" + suffix, uniform({rows, width}, -bound, bound));
        weights.hh = register_parameter("weight_hh" + suffix, uniform({rows, hidden_size}, -bound, bound));
        if (options.bias) {
          weights.bias_ih = register_parameter("bias_ih" + suffix, uniform({rows}, -bound, bound));
          weights.bias_hh = register_parameter("bias_hh" + suffix, uniform({rows}, -bound, bound));
        }
        weights_.push_back(std::move(weights));
      }
    }
    if (options.dropout > 0) register_module("dropout_between", dropout_);
  }

  Tensor forward(const Tensor& x) override { return RunLayers(x, {}, {}).output; }
  std::string kind() const override { return op_type_; }

 protected:
  int64_t directions() const { return options_.bidirectional ? 2 : 1; }

  // h0 and c0: [layers * directions, batch, hidden], or omitted for zeros.
  Layer RunLayers(const Tensor& x, const Tensor& h0, const Tensor& c0) {
    RequireRank(x, 3, options_.batch_first ? "batch, sequence, features" : "sequence, batch, features");
    RequireAxis(x, 2, input_size_, "features");
    CheckState(x, h0);
    CheckState(x, c0);
    Tensor value = options_.batch_first ? x.permute({1, 0, 2}) : x;
    std::vector<Tensor> last_h, last_c;
    for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
      if (layer > 0 && options_.dropout > 0) value = dropout_(value);
      Layer result = RunLayer(layer, value, h0, c0);
      value = result.output;
      last_h.push_back(result.h);
      last_c.push_back(result.c);
    }
    bool joined = last_h.size() > 1;
    return {.output = options_.batch_first ? value.permute({1, 0, 2}) : value,
            .h = joined ? cat(last_h, 0) : last_h[0],
            .c = joined && last_c[0].defined() ? cat(last_c, 0) : last_c[0]};
  }

 private:
  struct Weights {
    Tensor ih, hh, bias_ih, bias_hh;
  };

  void CheckState(const Tensor& x, const Tensor& state) const {
    if (!state.defined()) return;
    Shape expected = {options_.num_layers * directions(), x.size(options_.batch_first ? 0 : 1), hidden_};
    if (state.shape() != expected)
      Refuse("expects an initial state of shape " + ToText(expected) + ", got " + ToText(state.shape()));
  }

  // PyTorch and ONNX order the gates differently.
  Tensor InOnnxOrder(const Tensor& rows) const {
    std::vector<Tensor> gates = rows.split(std::vector<int64_t>(gate_order_.size(), hidden_), 0), ordered;
    for (size_t gate : gate_order_) ordered.push_back(gates[gate]);
    return cat(ordered, 0);
  }

  Layer RunLayer(int64_t layer, const Tensor& x, const Tensor& h0, const Tensor& c0) {
    std::vector<Tensor> w, r, b;
    for (int64_t direction = 0; direction < directions(); ++direction) {
      const Weights& weights = weights_[static_cast<size_t>(layer * directions() + direction)];
      w.push_back(InOnnxOrder(weights.ih).unsqueeze(0));
      r.push_back(InOnnxOrder(weights.hh).unsqueeze(0));
      if (options_.bias) b.push_back(cat({InOnnxOrder(weights.bias_ih), InOnnxOrder(weights.bias_hh)}, 0).unsqueeze(0));
    }
    auto join = [](const std::vector<Tensor>& parts) {
      return parts.empty() ? Tensor() : parts.size() == 1 ? parts[0] : cat(parts, 0);
    };
    auto own_part = [&](const Tensor& state) {
      if (!state.defined() || options_.num_layers == 1) return state;
      return state.slice(0, layer * directions(), (layer + 1) * directions());
    };
    bool is_lstm = gate_order_.size() == 4;
    std::vector<Tensor> inputs = {x, join(w), join(r), join(b), Tensor(), own_part(h0)};
    std::vector<Attribute> attributes = {{"hidden_size", hidden_},
                                         {"direction", options_.bidirectional ? "bidirectional" : "forward"}};
    if (is_lstm)
      inputs.push_back(own_part(c0));
    else
      attributes.emplace_back("linear_before_reset", 1);
    std::vector<Tensor> results = ops(op_type_, inputs, attributes, is_lstm ? 3 : 2);
    // [sequence, directions, batch, hidden] becomes [sequence, batch, directions * hidden].
    Tensor output = directions() == 1
                        ? results[0].squeeze(1)
                        : op("Reshape", {results[0].permute({0, 2, 1, 3}), Tensor::ints({0, 0, 2 * hidden_})});
    return {.output = output, .h = results[1], .c = is_lstm ? results[2] : Tensor()};
  }

  const char* op_type_;
  std::vector<size_t> gate_order_;
  int64_t input_size_, hidden_;
  RecurrentOptions options_;
  Dropout dropout_{options_.dropout};
  std::vector<Weights> weights_;
};

}  // namespace detail

// [sequence, batch, features] (or batch first) to [sequence, batch, directions * hidden].
class LSTM : public detail::Recurrent {
 public:
  struct Result {
    Tensor output, h, c;
  };
  LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent("LSTM", {0, 3, 1, 2}, input_size, hidden_size, options) {}  // i, f, g, o become i, o, f, g
  using Module::operator();
  Result operator()(const Tensor& x, const Tensor& h0, const Tensor& c0) {
    return Inside([&] {
      Layer all = RunLayers(x, h0, c0);
      return Result{all.output, all.h, all.c};
    });
  }
};

class GRU : public detail::Recurrent {
 public:
  struct Result {
    Tensor output, h;
  };
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent("GRU", {1, 0, 2}, input_size, hidden_size, options) {}  // r, z, n become z, r, n
  using Module::operator();
  Result operator()(const Tensor& x, const Tensor& h0) {
    return Inside([&] {
      Layer all = RunLayers(x, h0, {});
      return Result{all.output, all.h};
    });
  }
};

struct AttentionOptions {
  double dropout = 0;  // of the weights, while training
  bool bias = true;
  bool batch_first = false;
};

class MultiheadAttention : public Module {
 public:
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, const AttentionOptions& options = {})
      : out_proj(embed_dim, embed_dim, options.bias), embed_(embed_dim), heads_(num_heads), options_(options) {
    detail::RequirePositive({embed_dim, num_heads});
    if (embed_dim % num_heads)
      detail::Refuse(std::to_string(embed_dim) + " features cannot be split into " + std::to_string(num_heads) +
                     " heads");
    double bound = std::sqrt(6.0 / static_cast<double>(embed_dim + 3 * embed_dim));
    in_proj_weight = register_parameter("in_proj_weight", uniform({3 * embed_dim, embed_dim}, -bound, bound));
    if (options.bias) {
      in_proj_bias = register_parameter("in_proj_bias", Tensor::zeros({3 * embed_dim}));
      out_proj.bias.assign(Tensor::zeros({embed_dim}));
    }
    register_module("out_proj", out_proj);
    if (options.dropout > 0) register_module("dropout_of_weights", dropout_);
  }

  using Module::operator();
  // `mask` of shape [queries, keys] or what broadcasts to [batch, heads, queries, keys]: true keeps a key out; numbers
  // are added to the scores.
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask = {}) {
    return Inside([&] { return Attend(query, key, value, mask); });
  }
  Tensor forward(const Tensor& x) override { return Attend(x, x, x, {}); }
  std::string kind() const override { return "MultiheadAttention"; }

  Tensor in_proj_weight, in_proj_bias;
  Linear out_proj;

 private:
  Tensor Attend(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask) {
    std::vector<Tensor> inputs = {query, key, value};
    for (Tensor& input : inputs) {
      detail::RequireRank(input, 3, options_.batch_first ? "batch, sequence, features" : "sequence, batch, features");
      detail::RequireAxis(input, 2, embed_, "features");
      if (!options_.batch_first) input = input.permute({1, 0, 2});
    }
    std::vector<int64_t> thirds(3, embed_);
    std::vector<Tensor> weights = in_proj_weight.split(thirds, 0), biases(3);
    if (in_proj_bias.defined()) biases = in_proj_bias.split(thirds, 0);
    int64_t width = embed_ / heads_;
    auto project = [&](size_t which, const std::vector<int64_t>& order) {
      Tensor y = detail::ApplyLinear(inputs[which], weights[which], biases[which]);
      return op("Reshape", {y, Tensor::ints({0, 0, heads_, width})}).permute(order);
    };
    Tensor q = project(0, {0, 2, 1, 3}) * (1 / std::sqrt(static_cast<double>(width)));
    Tensor scores = matmul(q, project(1, {0, 2, 3, 1}));
    if (mask.defined()) {
      Tensor never = Tensor::scalar(-std::numeric_limits<double>::infinity(), scores.dtype());
      scores = mask.dtype() == FERRY_BOOL ? where(mask, never, scores) : scores + mask;
    }
    Tensor weighted = options_.dropout > 0 ? dropout_(softmax(scores)) : softmax(scores);
    Tensor mixed = matmul(weighted, project(2, {0, 2, 1, 3})).permute({0, 2, 1, 3});
    Tensor y = out_proj(op("Reshape", {mixed, Tensor::ints({0, 0, embed_})}));
    return options_.batch_first ? y : y.permute({1, 0, 2});
  }

  int64_t embed_, heads_;
  AttentionOptions options_;
  Dropout dropout_{options_.dropout};
};

}  // namespace nn
}  // namespace api_v1
}  // namespace ferry
