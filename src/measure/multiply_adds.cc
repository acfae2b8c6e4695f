#include "measure/multiply_adds.h"

#include <algorithm>

namespace ferry {
namespace {

using Facts = std::span<const ValueFacts* const>;
using Dims = std::vector<double>;

// The known dimensions of a value; nothing when any is open. Doubles, since a product may be beyond any integer.
std::optional<Dims> DimsOf(Facts facts, size_t i) {
  if (i >= facts.size() || !facts[i] || !facts[i]->type.shape) return std::nullopt;
  Dims dims;
  for (const Dim& dim : *facts[i]->type.shape) {
    if (!dim.known()) return std::nullopt;
    dims.push_back(static_cast<double>(*dim.value));
  }
  return dims;
}

double Product(const Dims& dims, size_t begin = 0) {
  double product = 1;
  for (size_t i = begin; i < dims.size(); ++i) product *= dims[i];
  return product;
}

// Each output element of a product sums over the last dimension of the left operand.
std::optional<double> OfMatMul(const Node&, Facts inputs, Facts outputs) {
  auto left = DimsOf(inputs, 0), result = DimsOf(outputs, 0);
  if (!left || !result || left->empty()) return std::nullopt;
  return Product(*result) * left->back();
}

std::optional<double> OfGemm(const Node& node, Facts inputs, Facts outputs) {
  auto left = DimsOf(inputs, 0), result = DimsOf(outputs, 0);
  if (!left || !result || left->size() != 2) return std::nullopt;
  return Product(*result) * (*left)[node.Int("transA", 0) != 0 ? 0 : 1];
}

std::optional<double> Convolution(Facts inputs, Facts outputs, size_t weight) {
  auto filter = DimsOf(inputs, weight), result = DimsOf(outputs, 0);
  if (!filter || !result) return std::nullopt;
  return Product(*result) * Product(*filter, 1);
}
std::optional<double> OfConv(const Node&, Facts inputs, Facts outputs) { return Convolution(inputs, outputs, 1); }
std::optional<double> OfQLinearConv(const Node&, Facts inputs, Facts outputs) {
  return Convolution(inputs, outputs, 3);
}

std::optional<double> OfConvTranspose(const Node&, Facts inputs, Facts) {
  auto image = DimsOf(inputs, 0), filter = DimsOf(inputs, 1);
  if (!image || !filter) return std::nullopt;
  return Product(*image) * Product(*filter, 1);
}

// Weights of a recurrence are used once per step and sequence.
std::optional<double> OfRecurrence(const Node&, Facts inputs, Facts) {
  auto sequence = DimsOf(inputs, 0), weight = DimsOf(inputs, 1), recurrent = DimsOf(inputs, 2);
  if (!sequence || !weight || !recurrent || sequence->size() != 3) return std::nullopt;
  return (*sequence)[0] * (*sequence)[1] * (Product(*weight) + Product(*recurrent));
}

std::optional<double> OfAttention(const Node&, Facts inputs, Facts outputs) {
  auto query = DimsOf(inputs, 0), key = DimsOf(inputs, 1), result = DimsOf(outputs, 0);
  if (!query || !key || !result || query->size() < 3 || key->size() < 3) return std::nullopt;
  double keys = (*key)[key->size() - 2];
  if (auto present = DimsOf(outputs, 1); present && present->size() >= 2) keys = (*present)[present->size() - 2];
  return keys * (Product(*query) + Product(*result));
}

// A times a matrix of N rows.
std::optional<double> OfMatMulNBits(const Node& node, Facts inputs, Facts) {
  auto a = DimsOf(inputs, 0);
  if (!a) return std::nullopt;
  return Product(*a) * static_cast<double>(node.Int("N", 0));
}

// As far as the cache reaches.
std::optional<double> OfCachedAttention(const Node&, Facts, Facts outputs) {
  auto result = DimsOf(outputs, 0), present = DimsOf(outputs, 1);
  if (!result || !present || present->size() != 4) return std::nullopt;
  return 2 * (*present)[2] * Product(*result);
}

struct CountingRule {
  std::string_view name;
  std::optional<double> (*rule)(const Node&, Facts, Facts);
};

constexpr CountingRule kMicrosoftRules[] = {
    {"MatMulNBits", OfMatMulNBits},
    {"MatMulBnb4", OfMatMulNBits},
    {"MatMulFpQ4", OfMatMul},
    {"GroupQueryAttention", OfCachedAttention},
    {"SparseAttention", OfCachedAttention},
};

constexpr CountingRule kRules[] = {
    {"MatMul", OfMatMul},
    {"MatMulInteger", OfMatMul},
    {"QLinearMatMul", OfMatMul},
    {"Gemm", OfGemm},
    {"Conv", OfConv},
    {"ConvInteger", OfConv},
    {"DeformConv", OfConv},
    {"QLinearConv", OfQLinearConv},
    {"ConvTranspose", OfConvTranspose},
    {"LSTM", OfRecurrence},
    {"GRU", OfRecurrence},
    {"RNN", OfRecurrence},
    {"Attention", OfAttention},
};

}  // namespace

std::optional<double> MultiplyAdds(const Node& node, Facts inputs, Facts outputs) {
  std::span<const CountingRule> rules;
  if (CanonicalDomain(node.domain).empty()) rules = kRules;
  if (node.domain == "com.microsoft") rules = kMicrosoftRules;
  for (const auto& [name, rule] : rules)
    if (node.op_type == name) return rule(node, inputs, outputs);
  return 0;
}

}  // namespace ferry
