// Layers without weights (PReLU has a few): activations, dropout, pooling, and changes of shape.
#pragma once

#include "ferry/nn/layers.hpp"

namespace ferry {
inline namespace api_v1 {
namespace nn {

#define FERRY_NN_ACTIVATION(NAME, EXPRESSION)                       \
  class NAME : public Module {                                      \
   public:                                                          \
    Tensor forward(const Tensor& x) override { return EXPRESSION; } \
    std::string kind() const override { return #NAME; }             \
  };
FERRY_NN_ACTIVATION(Identity, x)
FERRY_NN_ACTIVATION(ReLU, relu(x))
FERRY_NN_ACTIVATION(ReLU6, relu6(x))
FERRY_NN_ACTIVATION(SELU, selu(x))
FERRY_NN_ACTIVATION(Sigmoid, sigmoid(x))
FERRY_NN_ACTIVATION(Tanh, nn::tanh(x))
FERRY_NN_ACTIVATION(SiLU, silu(x))
FERRY_NN_ACTIVATION(Mish, mish(x))
FERRY_NN_ACTIVATION(Softplus, softplus(x))
FERRY_NN_ACTIVATION(Hardsigmoid, hardsigmoid(x))
FERRY_NN_ACTIVATION(Hardswish, hardswish(x))
#undef FERRY_NN_ACTIVATION

#define FERRY_NN_ACTIVATION(NAME, TYPE, DEFAULT, EXPRESSION)                    \
  class NAME : public Module {                                                  \
   public:                                                                      \
    explicit NAME(TYPE parameter DEFAULT) : parameter_(std::move(parameter)) {} \
    Tensor forward(const Tensor& x) override { return EXPRESSION; }             \
    std::string kind() const override { return #NAME; }                         \
                                                                                \
   private:                                                                     \
    TYPE parameter_;                                                            \
  };
FERRY_NN_ACTIVATION(LeakyReLU, double, = 0.01, leaky_relu(x, parameter_))
FERRY_NN_ACTIVATION(ELU, double, = 1, elu(x, parameter_))
FERRY_NN_ACTIVATION(GELU, std::string, = "none", gelu(x, parameter_.c_str()))
FERRY_NN_ACTIVATION(Softmax, int64_t, = -1, softmax(x, parameter_))
FERRY_NN_ACTIVATION(LogSoftmax, int64_t, = -1, log_softmax(x, parameter_))
#undef FERRY_NN_ACTIVATION

// One learnt slope, or one per channel.
class PReLU : public Module {
 public:
  explicit PReLU(int64_t num_parameters = 1, float init = 0.25f) {
    detail::RequirePositive({num_parameters});
    weight = register_parameter("weight", Tensor::full({num_parameters}, init));
  }
  Tensor forward(const Tensor& x) override {
    if (weight.numel() == 1 || x.dim() <= 2) return op("PRelu", {x, weight});
    detail::RequireAxis(x, 1, weight.numel(), "channels");
    std::vector<Size> shape(static_cast<size_t>(x.dim() - 1), Size(1));
    shape[0] = weight.numel();
    return op("PRelu", {x, weight.reshape(shape)});
  }
  std::string kind() const override { return "PReLU"; }

  Tensor weight;
};

// Nothing at all in eval mode; in training mode elements become 0 by chance and the others larger.
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5) : p_(p) {
    if (!(p >= 0 && p < 1)) detail::Refuse("Dropout takes a probability from 0 to below 1, not " + std::to_string(p));
  }
  Tensor forward(const Tensor& x) override {
    if (!is_training()) return x;
    static constexpr bool kOn = true;
    return op("Dropout", {x, Tensor::scalar(p_), Tensor::of<bool>({}, std::span<const bool>(&kOn, 1))});
  }
  std::string kind() const override { return "Dropout"; }

 private:
  double p_;
};

class Flatten : public Module {
 public:
  explicit Flatten(int64_t start = 1, int64_t end = -1) : start_(start), end_(end) {}
  Tensor forward(const Tensor& x) override { return x.flatten(start_, end_); }
  std::string kind() const override { return "Flatten"; }

 private:
  int64_t start_, end_;
};

template <size_t N>
struct PoolOptions {
  Extent<N> stride = 0;  // 0: as large as the kernel
  Extent<N> padding = 0;
  Extent<N> dilation = 1;  // MaxPool only
  bool ceil_mode = false;
  bool count_include_pad = true;  // AvgPool only
};

namespace detail {

template <size_t N>
std::vector<Attribute> PoolAttributes(const Extent<N>& kernel, const PoolOptions<N>& options) {
  for (size_t axis = 0; axis < N; ++axis)
    if (options.padding.values[axis] * 2 > kernel.values[axis])
      Refuse("padding " + std::to_string(options.padding.values[axis]) + " is more than half of the kernel");
  Extent<N> stride = options.stride.values[0] == 0 ? kernel : options.stride;
  return {{"kernel_shape", kernel.list()},
          {"strides", stride.list()},
          {"pads", options.padding.pads()},
          {"ceil_mode", options.ceil_mode ? 1 : 0}};
}

// Windows that cover the image exactly, or all of it at once: what ONNX has for an adaptive pool.
template <size_t N>
Tensor AdaptivePool(const Tensor& x, const Extent<N>& output, const char* global, const char* windowed) {
  RequireRank(x, N + 2, kImageLayout<N>);
  if (output.product() == 1) return op(global, {x});
  std::vector<int64_t> kernel;
  for (size_t axis = 0; axis < N; ++axis) {
    int64_t size = x.size(static_cast<int64_t>(axis) + 2), wanted = output.values[axis];
    if (wanted <= 0 || size % wanted != 0)
      Refuse("cannot pool axis " + std::to_string(axis + 2) + " of size " + std::to_string(size) + " to " +
             std::to_string(wanted) + ": only windows of one size have an operator in ONNX");
    kernel.push_back(size / wanted);
  }
  return op(windowed, {x}, {{"kernel_shape", kernel}, {"strides", kernel}});
}

}  // namespace detail

template <size_t N>
class MaxPool : public Module {
 public:
  explicit MaxPool(Extent<N> kernel_size, PoolOptions<N> options = {}) : kernel_(kernel_size), options_(options) {
    detail::RequirePositive({kernel_size.product()});
  }
  Tensor forward(const Tensor& x) override {
    detail::RequireRank(x, N + 2, detail::kImageLayout<N>);
    std::vector<Attribute> attributes = detail::PoolAttributes(kernel_, options_);
    attributes.emplace_back("dilations", options_.dilation.list());
    return detail::RequireNotEmpty(op("MaxPool", {x}, attributes), x);
  }
  std::string kind() const override { return "MaxPool" + std::to_string(N) + "d"; }

 private:
  Extent<N> kernel_;
  PoolOptions<N> options_;
};
using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;

template <size_t N>
class AvgPool : public Module {
 public:
  explicit AvgPool(Extent<N> kernel_size, PoolOptions<N> options = {}) : kernel_(kernel_size), options_(options) {
    detail::RequirePositive({kernel_size.product()});
  }
  Tensor forward(const Tensor& x) override {
    detail::RequireRank(x, N + 2, detail::kImageLayout<N>);
    std::vector<Attribute> attributes = detail::PoolAttributes(kernel_, options_);
    attributes.emplace_back("count_include_pad", options_.count_include_pad ? 1 : 0);
    return detail::RequireNotEmpty(op("AveragePool", {x}, attributes), x);
  }
  std::string kind() const override { return "AvgPool" + std::to_string(N) + "d"; }

 private:
  Extent<N> kernel_;
  PoolOptions<N> options_;
};
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;

template <size_t N>
class AdaptiveAvgPool : public Module {
 public:
  explicit AdaptiveAvgPool(Extent<N> output_size) : output_(output_size) {}
  Tensor forward(const Tensor& x) override {
    return detail::AdaptivePool<N>(x, output_, "GlobalAveragePool", "AveragePool");
  }
  std::string kind() const override { return "AdaptiveAvgPool" + std::to_string(N) + "d"; }

 private:
  Extent<N> output_;
};
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

template <size_t N>
class AdaptiveMaxPool : public Module {
 public:
  explicit AdaptiveMaxPool(Extent<N> output_size) : output_(output_size) {}
  Tensor forward(const Tensor& x) override { return detail::AdaptivePool<N>(x, output_, "GlobalMaxPool", "MaxPool"); }
  std::string kind() const override { return "AdaptiveMaxPool" + std::to_string(N) + "d"; }

 private:
  Extent<N> output_;
};
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

}  // namespace nn
}  // namespace api_v1
}  // namespace ferry
