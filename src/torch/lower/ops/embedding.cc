// Bags of embeddings.
#include <limits>

#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

enum Mode : int64_t { kSum, kMean, kMax };

// 1 where element i (a column) belongs to bag b (a row) and counts.
Operand Membership(Call& c, const Operand& indices, const Operand& offsets, const Scalar& padding) {
  Builder& b = c.b;
  Operand positions = b.Iota(indices, 0);
  Operand begun = b.LessOrEqual(b.Unsqueeze(offsets, {1}), positions);  // [bags, elements]
  Operand bag_of = b.Sub(b.Reduce("ReduceSum", b.Cast(begun, DType::kInt64), {0}, false), b.Int(1));
  Operand member = b.Equal(b.Unsqueeze(b.Iota(offsets, 0), {1}), bag_of);
  if (padding.AsInt() < 0) return member;
  return b.And(member, b.Not(b.Equal(indices, b.Int(padding.AsInt()))));
}

// Arguments: weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
// padding_idx. Only the first of the four results has a meaning outside of training.
Result EmbeddingBag(Call& c) {
  Builder& b = c.b;
  Operand weight = c.Tensor(0), indices = b.Cast(c.Tensor(1), DType::kInt64);
  Operand offsets = b.Cast(c.Tensor(2), DType::kInt64), factors = c.MaybeTensor(6);
  if (c.Bool(7)) offsets = b.Slice(offsets, 0, Scalar(0), Scalar(-1));
  Scalar padding = c.arg_count() > 8 && !c.IsNone(8) ? c.Number(8) : Scalar(-1);
  if (padding.AsInt() < 0 && c.target.ends_with("padding_idx") && !c.IsNone(8)) {
    Dim rows = weight.dim(0);
    if (!rows.known()) c.Unsupported("a negative padding_idx needs a known number of rows");
    padding = Scalar(padding.AsInt() + *rows.value);
  }
  Operand member = Membership(c, indices, offsets, padding);
  Operand rows = b.Gather(weight, indices, 0);
  if (factors) rows = b.Mul(rows, b.Unsqueeze(factors, {1}));
  int64_t mode = c.Int(4);
  Result result;
  if (mode == kMax) {
    Operand lowest = b.NumberLike(-std::numeric_limits<double>::infinity(), rows);
    Operand masked = b.Where(b.Unsqueeze(member, {2}), b.Unsqueeze(rows, {0}), lowest);
    Operand largest = b.Reduce("ReduceMax", masked, {1}, false);
    Operand any = b.Reduce("ReduceMax", b.Cast(member, DType::kInt32), {1}, true);
    result = b.Where(b.Equal(any, 0), b.NumberLike(0, rows), largest);
  } else {
    Operand share = b.CastLike(member, rows), sum = b.Widened("MatMul", {share, rows});
    if (mode == kMean) sum = b.Div(sum, b.Max(b.Reduce("ReduceSum", share, {1}, true), b.NumberLike(1, share)));
    result = sum;
  }
  result.items.resize(4);
  return result;
}

// Rows that are looked up and longer than allowed are shortened, all others stay.
Result EmbeddingRenorm(Call& c) {
  Builder& b = c.b;
  Operand weight = c.Tensor(0), indices = b.Reshape(b.Cast(c.Tensor(1), DType::kInt64), {-1, 1});
  double longest = c.Float(2), power = c.Float(3);
  Operand length;
  if (power == 1 || power == 2) {
    length = b.Reduce(power == 1 ? "ReduceL1" : "ReduceL2", weight, {1}, true);
  } else {
    length = b.Pow(b.Reduce("ReduceSum", b.Pow(b.Abs(weight), power), {1}, true), 1 / power);
  }
  Operand none = b.Fill(0, weight.dtype(), b.SizeOf(weight, 0));
  Operand ones = b.Fill(1, weight.dtype(), b.SizeOf(indices, 0));
  Operand looked_up = b.Unsqueeze(b.Emit("ScatterND", {none, indices, ones}), {1});
  Operand too_long = b.And(b.Greater(length, longest), b.Greater(looked_up, 0));
  return b.Where(too_long, b.Mul(weight, b.Div(longest, b.Add(length, 1e-7))), weight);
}

constexpr RuleKind kPlain = RuleKind::kPlain;

constexpr Rule kRules[] = {
    {"embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type)", EmbeddingRenorm},
    {"embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
     "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False)",
     EmbeddingBag, kPlain, false, 1},
    {"embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, "
     "bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx)",
     EmbeddingBag, kPlain, false, 1},
    {"_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
     "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1)",
     EmbeddingBag, kPlain, false, 1},
    {"_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, "
     "int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, "
     "int padding_idx=-1)",
     EmbeddingBag, kPlain, false, 1},
};

}  // namespace

std::span<const Rule> EmbeddingRules() { return kRules; }

}  // namespace ferry::torch
