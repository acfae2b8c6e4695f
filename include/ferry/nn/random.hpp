// Random numbers as PyTorch draws them on a CPU: the same seed gives the same initial weights.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "ferry/nn/tensor.hpp"

namespace ferry {
inline namespace api_v1 {
namespace nn {
namespace detail {

class Generator {
 public:
  void Seed(uint64_t seed) {
    engine_.seed(static_cast<uint32_t>(seed));
    has_kept_ = false;
  }

  // 24 random bits, scaled.
  float Uniform(float low, float high) {
    constexpr uint32_t kMask = (1u << 24) - 1;
    float unit = static_cast<float>(engine_() & kMask) * 0x1p-24f;
    return unit * (high - low) + low;
  }

  void FillNormal(std::vector<float>& out) {
    constexpr size_t kBlock = 16;
    if (out.size() < kBlock) {
      for (float& x : out) x = static_cast<float>(Normal());
      return;
    }
    for (float& x : out) x = Uniform(0, 1);
    for (size_t i = 0; i + kBlock <= out.size(); i += kBlock) NormalBlock(&out[i]);
    if (out.size() % kBlock == 0) return;
    float* last = out.data() + out.size() - kBlock;
    for (size_t i = 0; i < kBlock; ++i) last[i] = Uniform(0, 1);
    NormalBlock(last);
  }

 private:
  double Uniform53() {
    uint64_t high = engine_(), low = engine_();
    return static_cast<double>((high << 32 | low) & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
  }

  double Normal() {
    if (has_kept_) {
      has_kept_ = false;
      return kept_;
    }
    double angle = 2 * std::numbers::pi * Uniform53(), radius = std::sqrt(-2 * std::log1p(-Uniform53()));
    kept_ = radius * std::sin(angle);
    has_kept_ = true;
    return radius * std::cos(angle);
  }

  // Sixteen uniform numbers become normal ones (Box and Muller).
  static void NormalBlock(float* x) {
    for (int i = 0; i < 8; ++i) {
      float radius = std::sqrt(-2 * std::log(1 - x[i])), angle = 2 * std::numbers::pi_v<float> * x[i + 8];
      x[i] = radius * std::cos(angle);
      x[i + 8] = radius * std::sin(angle);
    }
  }

  std::mt19937 engine_{static_cast<uint32_t>(67280421310721)};  // PyTorch's own default
  bool has_kept_ = false;
  double kept_ = 0;
};

inline Generator& DefaultGenerator() {
  static thread_local Generator generator;
  return generator;
}

}  // namespace detail

// Modules that this thread makes from here on have the weights that PyTorch gives them after torch.manual_seed(seed).
inline void manual_seed(uint64_t seed) { detail::DefaultGenerator().Seed(seed); }

inline Tensor uniform(const Shape& shape, double low, double high) {
  Tensor tensor = Tensor::zeros(shape);
  std::vector<float> elements(static_cast<size_t>(tensor.numel()));
  for (float& x : elements) x = detail::DefaultGenerator().Uniform(static_cast<float>(low), static_cast<float>(high));
  return Tensor::of<float>(shape, elements);
}
inline Tensor rand(const Shape& shape) { return uniform(shape, 0, 1); }
inline Tensor randn(const Shape& shape) {
  Tensor tensor = Tensor::zeros(shape);
  std::vector<float> elements(static_cast<size_t>(tensor.numel()));
  detail::DefaultGenerator().FillNormal(elements);
  return Tensor::of<float>(shape, elements);
}

}  // namespace nn
}  // namespace api_v1
}  // namespace ferry
