#include "ops/support/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/support/widen.h"

namespace ferry {

MixtureOfExperts::MixtureOfExperts(const OpContext& context) {
  const Node& node = context.node();
  const Tensor &x = context.Input(0), &router = context.Input(1);
  activation_ = node.String("activation_type", "relu");
  gates_ = activation_ == "swiglu";
  for (const char* known : {"relu", "gelu", "silu", "identity", "swiglu", ""}) {
    if (activation_ == known) break;
    Require(*known, "activation_type \"", Printable(activation_), "\" is not supported");
  }
  alpha_ = node.Float("activation_alpha", 1);
  beta_ = node.Float("activation_beta", 0);
  limit_ = node.Float("swiglu_limit", std::numeric_limits<float>::infinity());
  Require(!gates_ || node.Int("swiglu_fusion", 0) == 1,
          "swiglu is supported with gates between the numbers only (swiglu_fusion 1)");
  Require(limit_ >= 0, "swiglu_limit must not be negative, is ", limit_);
  Require(node.Int("use_sparse_mixer", 0) == 0, "use_sparse_mixer is not supported");
  Require(x.rank() >= 2 && x.shape().back() > 0, "input must have 2 or 3 axes, its shape is ", x.shape());
  hidden = x.shape().back();
  tokens = x.size() / hidden;
  Require(router.rank() == 2 && router.dim(0) == tokens && router.dim(1) > 0, "router_probs must have shape [", tokens,
          ", experts], has ", router.shape());
  experts = router.dim(1);
  chosen = node.Int("k", 1);
  Require(chosen >= 1 && chosen <= experts, "k must be 1 to ", experts, ", is ", chosen);
}

std::vector<int64_t> MixtureOfExperts::Largest(const float* logits) const {
  std::vector<int64_t> order(static_cast<size_t>(experts));
  std::iota(order.begin(), order.end(), 0);
  // Of equal ones the last comes first, as ONNX Runtime has it. NaN counts as the smallest.
  auto key = [&](int64_t i) { return logits[i] == logits[i] ? logits[i] : -HUGE_VALF; };
  std::partial_sort(order.begin(), order.begin() + chosen, order.end(),
                    [&](int64_t a, int64_t b) { return key(a) != key(b) ? key(a) > key(b) : a > b; });
  order.resize(static_cast<size_t>(chosen));
  return order;
}

void MixtureOfExperts::Activate(const float* from, float* to) const {
  auto sigmoid = [](float x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); };
  for (int64_t i = 0; i < inner; ++i) {
    float x = from[i];
    if (gates_) {
      float gate = std::min(from[2 * i], limit_), linear = std::clamp(from[2 * i + 1], -limit_, limit_);
      to[i] = gate * sigmoid(alpha_ * gate) * (linear + beta_);
    } else if (activation_ == "relu") {
      to[i] = x < 0 ? 0 : x;
    } else if (activation_ == "gelu") {
      to[i] = 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
    } else {
      to[i] = activation_ == "silu" ? x * sigmoid(x) : x;
    }
  }
}

void MixtureOfExperts::Run(OpContext& context) const {
  const Tensor x = WidenToFloat(context.Input(0));
  Require(x.dtype() == DType::kFloat, "double is not supported");
  Tensor& y = context.Output(0, context.Input(0).dtype(), context.Input(0).shape());
  Tensor wide_y = y.dtype() == DType::kFloat ? y : Tensor(DType::kFloat, y.shape());
  Add(context, x.Data<float>(), wide_y.MutableData<float>());
  NarrowInto(wide_y, y);
}

void MixtureOfExperts::Add(const OpContext& context, const float* input, float* y) const {
  std::fill_n(y, tokens * hidden, 0.0f);
  auto width = static_cast<size_t>(first_width());
  for (int64_t expert = 0; expert < experts; ++expert) {
    context.CheckCancelled();
    std::vector<size_t> mine;
    for (size_t i = 0; i < routes.size(); ++i)
      if (routes[i].expert == expert && routes[i].weight > 0) mine.push_back(i);
    if (mine.empty()) continue;
    auto count = static_cast<int64_t>(mine.size());
    std::vector<float> x(mine.size() * static_cast<size_t>(hidden)), first_out(mine.size() * width),
        active(mine.size() * static_cast<size_t>(inner)), out(x.size());
    for (size_t i = 0; i < mine.size(); ++i)
      std::copy_n(input + static_cast<int64_t>(mine[i]) / chosen * hidden, hidden,
                  x.begin() + static_cast<int64_t>(i) * hidden);
    first(expert, x.data(), count, first_out.data());
    for (int64_t i = 0; i < count; ++i)
      Activate(first_out.data() + static_cast<size_t>(i) * width, active.data() + i * inner);
    second(expert, active.data(), count, out.data());
    for (int64_t i = 0; i < count; ++i) {
      const ExpertChoice& route = routes[mine[static_cast<size_t>(i)]];
      float* to = y + static_cast<int64_t>(mine[static_cast<size_t>(i)]) / chosen * hidden;
      for (int64_t j = 0; j < hidden; ++j) to[j] += route.weight * out[static_cast<size_t>(i * hidden + j)];
    }
  }
}

}  // namespace ferry
