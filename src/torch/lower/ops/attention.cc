// Attention.
#include <cmath>
#include <limits>

#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Heads of keys and values that several heads of queries share, written out.
Operand RepeatHeads(Call& c, const Operand& x, const Operand& query) {
  Dim heads = x.dim(-3), wanted = query.dim(-3);
  if (!heads.known() || !wanted.known()) c.Unsupported("grouped heads need to know how many there are");
  if (*heads.value == *wanted.value) return x;
  if (*heads.value == 0 || *wanted.value % *heads.value != 0)
    c.Unsupported(*wanted.value, " heads of queries cannot share ", *heads.value, " of keys and values");
  std::vector<Scalar> sizes = c.b.Sizes(x), spread = sizes;
  auto at = static_cast<ptrdiff_t>(x.rank() - 3);
  spread.insert(spread.begin() + at + 1, Scalar(*wanted.value / *heads.value));
  std::vector<Scalar> target(spread.size(), Scalar(1));
  target[static_cast<size_t>(at) + 1] = spread[static_cast<size_t>(at) + 1];
  sizes[static_cast<size_t>(at)] = Scalar(*wanted.value);
  return c.b.View(c.b.Expand(c.b.Unsqueeze(x, {at + 1}), c.b.ShapeVector(target)), sizes);
}

// Row i may look at columns 0 … i.
Operand CausalMask(Call& c, const Operand& query, const Operand& key) {
  Operand rows = c.b.Unsqueeze(c.b.Iota(query, -2), {1}), columns = c.b.Iota(key, -2);
  return c.b.LessOrEqual(columns, rows);
}

Operand ScaleOf(Call& c, const Operand& query, size_t scale_at) {
  if (!c.IsNone(scale_at)) return c.b.NumberLike(c.Float(scale_at), query);
  Dim size = query.dim(-1);
  if (size.known()) return c.b.NumberLike(1 / std::sqrt(static_cast<double>(*size.value)), query);
  return c.b.Reciprocal(c.b.Sqrt(c.b.CastLike(c.b.AsRank0(c.b.SizeOf(query, -1)), query)));
}

Operand AttentionNode(Call& c, const Operand& q, const Operand& k, const Operand& v, const Operand& mask, bool causal) {
  Attributes attributes;
  if (causal) attributes.push_back({"is_causal", int64_t{1}});
  if (!c.IsNone(6)) attributes.push_back({"scale", static_cast<float>(c.Float(6))});
  return c.b.Emit("Attention", mask ? Operands{q, k, v, mask} : Operands{q, k, v}, attributes);
}

// softmax(q k' · scale + mask) v. A row in which every place is masked gives 0, as PyTorch's does, not NaN.
Operand AttentionGraph(Call& c, const Operand& q, const Operand& k, const Operand& v, const Operand& mask,
                       bool causal) {
  Operand scores = c.b.MatMul(c.b.Mul(q, ScaleOf(c, q, 6)), c.b.SwapAxes(k, -1, -2));
  if (causal) scores = c.b.Where(CausalMask(c, q, k), scores, c.b.NumberLike(-kInfinity, scores));
  if (!mask) return c.b.MatMul(c.b.Widened("Softmax", {scores}, {{"axis", int64_t{-1}}}), v);
  if (mask.dtype() == DType::kBool)
    scores = c.b.Where(mask, scores, c.b.NumberLike(-kInfinity, scores));
  else
    scores = c.b.Add(scores, c.b.CastLike(mask, scores));
  Operand weights = c.b.Widened("Softmax", {scores}, {{"axis", int64_t{-1}}});
  Operand nothing_left = c.b.Equal(c.b.Reduce("ReduceMax", scores, {-1}, true), -kInfinity);
  return c.b.MatMul(c.b.Where(nothing_left, c.b.NumberLike(0, weights), weights), v);
}

Result ScaledDotProduct(Call& c) {
  Operand q = c.Tensor(0), k = c.Tensor(1), v = c.Tensor(2), mask = c.MaybeTensor(3);
  if (c.Float(4) != 0) {
    if (c.options().training == LowerOptions::Training::kRefuse)
      c.Unsupported(
          "the program was captured in training mode: this attention drops weights at random. Call model.eval() "
          "before torch.export, or export with ",
          c.options().eval_option());
    if (c.options().training == LowerOptions::Training::kKeep) c.Unsupported("attention with dropout has no export");
  }
  bool causal = c.Bool(5);
  bool grouped = c.Bool(7);
  if (c.b.Has("Attention") && q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && !mask)
    return AttentionNode(c, q, k, v, mask, causal);
  if (grouped) {
    k = RepeatHeads(c, k, q);
    v = RepeatHeads(c, v, q);
  }
  return AttentionGraph(c, q, k, v, mask, causal);
}

constexpr Rule kRules[] = {
    {"scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
     "dropout_p=0.0, "
     "bool is_causal=False, *, float? scale=None, bool enable_gqa=False)",
     ScaledDotProduct},
};

}  // namespace

std::span<const Rule> AttentionRules() { return kRules; }

}  // namespace ferry::torch
