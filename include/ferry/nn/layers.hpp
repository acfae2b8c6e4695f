// Layers that look at their inputs once: products, convolutions, normalisations, embeddings.
#pragma once

#include <array>
#include <cmath>

#include "ferry/nn/functional.hpp"
#include "ferry/nn/module.hpp"

namespace ferry {
inline namespace api_v1 {
namespace nn {

// One number per spatial axis: 3 means 3 along each.
template <size_t N>
struct Extent {
  Extent(int64_t all) { values.fill(all); }
  Extent(std::initializer_list<int64_t> each) {
    if (each.size() != N) detail::Refuse("needs " + std::to_string(N) + " numbers, got " + std::to_string(each.size()));
    std::copy(each.begin(), each.end(), values.begin());
  }
  std::vector<int64_t> list() const { return {values.begin(), values.end()}; }
  // The same at the beginning and at the end of every axis.
  std::vector<int64_t> pads() const {
    std::vector<int64_t> both = list();
    both.insert(both.end(), values.begin(), values.end());
    return both;
  }
  int64_t product() const {
    int64_t product = 1;
    for (int64_t value : values) product *= value;
    return product;
  }
  std::array<int64_t, N> values;
};

namespace detail {

inline void RequirePositive(std::initializer_list<int64_t> sizes) {
  for (int64_t size : sizes)
    if (size <= 0 || size > int64_t{1} << 31) Refuse("a size of " + std::to_string(size) + " makes no layer");
}

inline void RequireRank(const Tensor& x, int64_t rank, const char* layout) {
  if (x.dim() != rank)
    Refuse("expects " + std::to_string(rank) + " dimensions (" + layout + "), got shape " + ToText(x.shape()));
}

inline void RequireAxis(const Tensor& x, int64_t axis, int64_t size, const char* what) {
  if (static_cast<int64_t>(x.size(axis)) != size)
    Refuse("expects " + std::to_string(size) + " " + what + " in axis " + std::to_string(x.NormalAxis(axis)) +
           ", got shape " + ToText(x.shape()));
}

inline Tensor RequireNotEmpty(const Tensor& y, const Tensor& x) {
  if (y.numel() == 0 && x.numel() > 0)
    Refuse("the kernel is larger than the image, which has shape " + ToText(x.shape()));
  return y;
}

// kaiming_uniform(a = sqrt(5)) for the weight, the same bound for the bias: what PyTorch's layers start with.
inline double KaimingBound(int64_t fan_in) {
  return std::sqrt(3.0) * (std::sqrt(2.0 / 6.0) / std::sqrt(static_cast<double>(fan_in)));
}
inline Tensor InitialBias(int64_t size, int64_t fan_in) {
  double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return uniform({size}, -bound, bound);
}
inline Tensor InitialWeight(const Shape& shape, int64_t fan_in) {
  double bound = KaimingBound(fan_in);
  return uniform(shape, -bound, bound);
}

template <size_t N>
constexpr const char* kImageLayout = N == 1   ? "N, C, L"
                                     : N == 2 ? "N, C, H, W"
                                              : "N, C, D, H, W";

// x times the transposed weight, plus the bias: one Gemm for matrices.
inline Tensor ApplyLinear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (x.dim() == 2) return op("Gemm", {x, weight, bias}, {{"transB", 1}});
  Tensor y = matmul(x, weight.transpose(0, 1));
  return bias.defined() ? y + bias : y;
}

// [first, second / groups, kernel…]: output channels come first, but in transposed convolutions.
template <size_t N>
Shape ConvWeightShape(int64_t first, int64_t second, const Extent<N>& kernel, int64_t groups) {
  RequirePositive({first, second, kernel.product(), groups});
  if (first % groups || second % groups) Refuse("channels cannot be split into " + std::to_string(groups) + " groups");
  Shape shape = {first, second / groups};
  shape.insert(shape.end(), kernel.values.begin(), kernel.values.end());
  return shape;
}

}  // namespace detail

class Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, bool with_bias = true) : in_features_(in_features) {
    detail::RequirePositive({in_features, out_features});
    weight = register_parameter("weight", detail::InitialWeight({out_features, in_features}, in_features));
    if (with_bias) bias = register_parameter("bias", detail::InitialBias(out_features, in_features));
  }
  Tensor forward(const Tensor& x) override {
    if (x.dim() == 0) detail::Refuse("expects at least one dimension");
    detail::RequireAxis(x, -1, in_features_, "features");
    return detail::ApplyLinear(x, weight, bias);
  }
  std::string kind() const override { return "Linear"; }

  Tensor weight, bias;

 private:
  int64_t in_features_;
};

template <size_t N>
struct ConvOptions {
  Extent<N> stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

template <size_t N>
class Conv : public Module {
 public:
  Conv(int64_t in_channels, int64_t out_channels, Extent<N> kernel_size, ConvOptions<N> options = {})
      : in_channels_(in_channels), kernel_(kernel_size), options_(options) {
    const Shape shape = detail::ConvWeightShape(out_channels, in_channels, kernel_size, options.groups);
    int64_t fan_in = shape[1] * kernel_size.product();
    weight = register_parameter("weight", detail::InitialWeight(shape, fan_in));
    if (options.bias) bias = register_parameter("bias", detail::InitialBias(out_channels, fan_in));
  }
  Tensor forward(const Tensor& x) override {
    detail::RequireRank(x, N + 2, detail::kImageLayout<N>);
    detail::RequireAxis(x, 1, in_channels_, "channels");
    Tensor y = op("Conv", {x, weight, bias},
                  {{"kernel_shape", kernel_.list()},
                   {"strides", options_.stride.list()},
                   {"pads", options_.padding.pads()},
                   {"dilations", options_.dilation.list()},
                   {"group", options_.groups}});
    return detail::RequireNotEmpty(y, x);
  }
  std::string kind() const override { return "Conv" + std::to_string(N) + "d"; }

  Tensor weight, bias;

 private:
  int64_t in_channels_;
  Extent<N> kernel_;
  ConvOptions<N> options_;
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

template <size_t N>
struct ConvTransposeOptions {
  Extent<N> stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

template <size_t N>
class ConvTranspose : public Module {
 public:
  ConvTranspose(int64_t in_channels, int64_t out_channels, Extent<N> kernel_size, ConvTransposeOptions<N> options = {})
      : in_channels_(in_channels), kernel_(kernel_size), options_(options) {
    const Shape shape = detail::ConvWeightShape(in_channels, out_channels, kernel_size, options.groups);
    int64_t fan_in = shape[1] * kernel_size.product();
    weight = register_parameter("weight", detail::InitialWeight(shape, fan_in));
    if (options.bias) bias = register_parameter("bias", detail::InitialBias(out_channels, fan_in));
  }
  Tensor forward(const Tensor& x) override {
    detail::RequireRank(x, N + 2, detail::kImageLayout<N>);
    detail::RequireAxis(x, 1, in_channels_, "channels");
    return op("ConvTranspose", {x, weight, bias},
              {{"kernel_shape", kernel_.list()},
               {"strides", options_.stride.list()},
               {"pads", options_.padding.pads()},
               {"output_padding", options_.output_padding.list()},
               {"dilations", options_.dilation.list()},
               {"group", options_.groups}});
  }
  std::string kind() const override { return "ConvTranspose" + std::to_string(N) + "d"; }

  Tensor weight, bias;

 private:
  int64_t in_channels_;
  Extent<N> kernel_;
  ConvTransposeOptions<N> options_;
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = true;
};

// By its running statistics in eval mode; in training mode by those of the batch, which the running ones then follow.
template <size_t N>
class BatchNorm : public Module {
 public:
  explicit BatchNorm(int64_t num_features, BatchNormOptions options = {})
      : num_features_(num_features), options_(options) {
    detail::RequirePositive({num_features});
    weight = Tensor::ones({num_features});
    bias = Tensor::zeros({num_features});
    if (options.affine) {
      register_parameter("weight", weight);
      register_parameter("bias", bias);
    }
    running_mean = register_buffer("running_mean", Tensor::zeros({num_features}));
    running_var = register_buffer("running_var", Tensor::ones({num_features}));
    num_batches_tracked = register_buffer("num_batches_tracked", Tensor::scalar(0, FERRY_INT64));
  }
  Tensor forward(const Tensor& x) override {
    if (!(N == 1 && x.dim() == 2)) detail::RequireRank(x, N + 2, detail::kImageLayout<N>);
    detail::RequireAxis(x, 1, num_features_, "features");
    std::vector<Attribute> attributes = {{"epsilon", options_.eps}};
    if (is_training()) attributes.emplace_back("training_mode", 1);
    Tensor y = op("BatchNormalization", {x, weight, bias, running_mean, running_var}, attributes);
    if (is_training() && !detail::context.repeats) FollowStatistics(x);
    return y;
  }
  std::string kind() const override { return "BatchNorm" + std::to_string(N) + "d"; }

  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  void FollowStatistics(const Tensor& x) {
    detail::Unrecorded unrecorded;
    int64_t count = x.numel() / num_features_;
    if (count < 2)
      detail::Refuse("training needs more than one value per channel, got shape " + detail::ToText(x.shape()));
    std::vector<int64_t> axes = {0};
    for (int64_t axis = 2; axis < x.dim(); ++axis) axes.push_back(axis);
    Tensor mean = x.mean(axes, true), centered = x - mean;
    Tensor variance = (centered * centered).sum(axes) / static_cast<double>(count - 1);
    double m = options_.momentum;
    running_mean.assign(running_mean * (1 - m) + mean.reshape({num_features_}) * m);
    running_var.assign(running_var * (1 - m) + variance * m);
    num_batches_tracked.assign(num_batches_tracked + 1);
  }

  int64_t num_features_;
  BatchNormOptions options_;
};
using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;
using BatchNorm3d = BatchNorm<3>;

// Over the last axes, whose sizes are `normalized_shape`.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(Shape normalized_shape, double eps = 1e-5, bool elementwise_affine = true)
      : shape_(std::move(normalized_shape)), eps_(eps) {
    if (shape_.empty()) detail::Refuse("LayerNorm needs the sizes of the last axes");
    weight = Tensor::ones(shape_);
    if (!elementwise_affine) return;
    register_parameter("weight", weight);
    bias = register_parameter("bias", Tensor::zeros(shape_));
  }
  explicit LayerNorm(int64_t size, double eps = 1e-5, bool elementwise_affine = true)
      : LayerNorm(Shape{size}, eps, elementwise_affine) {}
  Tensor forward(const Tensor& x) override {
    Shape shape = x.shape();
    if (shape.size() < shape_.size() || !std::equal(shape_.rbegin(), shape_.rend(), shape.rbegin()))
      detail::Refuse("expects the last axes to be " + detail::ToText(shape_) + ", got shape " + detail::ToText(shape));
    return op("LayerNormalization", {x, weight, bias},
              {{"axis", -static_cast<int64_t>(shape_.size())}, {"epsilon", eps_}});
  }
  std::string kind() const override { return "LayerNorm"; }

  Tensor weight, bias;

 private:
  Shape shape_;
  double eps_;
};

class GroupNorm : public Module {
 public:
  GroupNorm(int64_t num_groups, int64_t num_channels, double eps = 1e-5, bool affine = true)
      : num_groups_(num_groups), num_channels_(num_channels), eps_(eps) {
    detail::RequirePositive({num_groups, num_channels});
    if (num_channels % num_groups)
      detail::Refuse("channels cannot be split into " + std::to_string(num_groups) + " groups");
    weight = Tensor::ones({num_channels});
    bias = Tensor::zeros({num_channels});
    if (!affine) return;
    register_parameter("weight", weight);
    register_parameter("bias", bias);
  }
  Tensor forward(const Tensor& x) override {
    if (x.dim() < 2) detail::Refuse("expects at least two dimensions (N, C), got shape " + detail::ToText(x.shape()));
    detail::RequireAxis(x, 1, num_channels_, "channels");
    return op("GroupNormalization", {x, weight, bias}, {{"num_groups", num_groups_}, {"epsilon", eps_}});
  }
  std::string kind() const override { return "GroupNorm"; }

  Tensor weight, bias;

 private:
  int64_t num_groups_, num_channels_;
  double eps_;
};

// Rows of a table, by int32 or int64 numbers.
class Embedding : public Module {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim) : num_embeddings_(num_embeddings) {
    detail::RequirePositive({num_embeddings, embedding_dim});
    weight = register_parameter("weight", randn({num_embeddings, embedding_dim}));
  }
  Tensor forward(const Tensor& indices) override {
    {
      detail::Unrecorded unrecorded;  // ONNX counts negative numbers from the end; an embedding has no such rows
      if (indices.numel() > 0 && indices.to(FERRY_INT64).amin().item<int64_t>() < 0)
        detail::Refuse("a row below 0 is asked for, of " + std::to_string(num_embeddings_));
    }
    return op("Gather", {weight, indices}, {{"axis", 0}});
  }
  std::string kind() const override { return "Embedding"; }

  Tensor weight;

 private:
  int64_t num_embeddings_;
};

}  // namespace nn
}  // namespace api_v1
}  // namespace ferry
