// The fused layers that PyTorch's transformer modules call in inference mode, written out.
#include <cmath>

#include "torch/lower/families.h"
#include "torch/lower/lowerer.h"

namespace ferry::torch {
namespace {

Operand Apply(Call& c, const std::string& target, const std::vector<Arg>& args) {
  std::vector<std::pair<std::string, Arg>> arguments;
  for (const Arg& arg : args) arguments.emplace_back("", arg);
  c.lowerer().SetMetas({});
  return c.lowerer().Read(c.lowerer().Run(target, arguments).at(0));
}
Arg Cells(Call& c, const Operand& value) { return c.lowerer().MakeCell(value); }

Operand Linear(Call& c, const Operand& x, const Operand& weight, const Operand& bias) {
  return Apply(c, "aten.linear", {Cells(c, x), Cells(c, weight), Cells(c, bias)});
}

struct AttentionWeights {
  Operand in_weight, in_bias, out_weight, out_bias;
  int64_t embedding = 0, heads = 1;
};

// [batch, length, embedding] → [batch, heads, length, embedding of a head]
Operand SplitHeads(Call& c, const Operand& x, const AttentionWeights& w) {
  std::vector<Scalar> sizes = c.b.Sizes(x);
  return c.b.SwapAxes(c.b.View(x, {sizes[0], sizes[1], Scalar(w.heads), Scalar(w.embedding / w.heads)}), 1, 2);
}

// Queries, keys and values: one product when they are made of the same tensor.
Operands Project(Call& c, const Operands& inputs, const AttentionWeights& w) {
  Operands out;
  if (inputs[0] == inputs[1] && inputs[1] == inputs[2]) {
    out = c.b.EmitMany(
        "Split", {Linear(c, inputs[0], w.in_weight, w.in_bias), c.b.Ints({w.embedding, w.embedding, w.embedding})},
        {{"axis", int64_t{2}}}, 3);
  } else {
    for (int64_t i = 0; i < 3; ++i) {
      Scalar begin(i * w.embedding), end((i + 1) * w.embedding);
      out.push_back(Linear(c, inputs[static_cast<size_t>(i)], c.b.Slice(w.in_weight, 0, begin, end),
                           c.b.Slice(w.in_bias, 0, begin, end)));
    }
  }
  for (Operand& part : out) part = SplitHeads(c, part, w);
  return out;
}

// The mask is true where nothing may be looked at. Type 0: [length, length]; 1: [batch, length] of padded keys.
Operand Visible(Call& c, const Operand& mask, const Arg& type) {
  if (!mask) return {};
  if (mask.dtype() != DType::kBool) c.Unsupported("a mask of ", mask.dtype(), " has no export in fused attention");
  const Scalar* number = type.get<Scalar>();
  bool pads_keys = number && number->AsInt() == 1;
  if (number && number->AsInt() > 1) c.Unsupported("masks of type ", number->AsInt(), " have no export");
  return c.b.Not(pads_keys ? c.b.Unsqueeze(mask, {1, 2}) : mask);
}

// Gives the attention's weights as well when asked for.
Operand Attend(Call& c, const Operands& inputs, const AttentionWeights& w, const Operand& visible, Operand* weights) {
  if (inputs[0].rank() != 3 || w.heads < 1 || w.embedding % w.heads != 0)
    c.Unsupported("fused attention of ", w.heads, " heads over rank ", inputs[0].rank(), " has no export");
  Operands p = Project(c, inputs, w);
  Operand mixed;
  if (weights) {
    double scale = 1 / std::sqrt(static_cast<double>(w.embedding / w.heads));
    Operand scores = c.b.MatMul(c.b.Mul(p[0], scale), c.b.SwapAxes(p[1], 2, 3));
    if (visible) scores = c.b.Where(visible, scores, c.b.NumberLike(-INFINITY, scores));
    *weights = c.b.Widened("Softmax", {scores}, {{"axis", int64_t{-1}}});
    mixed = c.b.MatMul(*weights, p[2]);
  } else {
    Arg mask = visible ? Cells(c, visible) : Arg();
    mixed = Apply(c, "aten.scaled_dot_product_attention", {Cells(c, p[0]), Cells(c, p[1]), Cells(c, p[2]), mask});
  }
  std::vector<Scalar> sizes = c.b.Sizes(inputs[0]);
  Operand joined = c.b.View(c.b.SwapAxes(mixed, 1, 2), {sizes[0], sizes[1], Scalar(w.embedding)});
  return Linear(c, joined, w.out_weight, w.out_bias);
}

Result MultiHeadAttention(Call& c) {
  AttentionWeights w{c.Tensor(5), c.Tensor(6), c.Tensor(7), c.Tensor(8), c.Int(3), c.Int(4)};
  bool wants_weights = c.Bool(10);
  Operand weights;
  Result result(Attend(c, {c.Tensor(0), c.Tensor(1), c.Tensor(2)}, w, Visible(c, c.MaybeTensor(9), c.arg(12)),
                       wants_weights ? &weights : nullptr));
  if (!wants_weights)
    result.items.emplace_back();
  else
    result.items.emplace_back(c.Bool(11) ? c.b.Reduce("ReduceMean", weights, {1}, false) : weights);
  return result;
}

Result EncoderLayer(Call& c) {
  Operand x = c.Tensor(0);
  AttentionWeights w{c.Tensor(3), c.Tensor(4), c.Tensor(5), c.Tensor(6), c.Int(1), c.Int(2)};
  bool gelu = c.Bool(7), norm_first = c.Bool(8);
  Operand visible = Visible(c, c.MaybeTensor(18), c.arg(19));
  auto norm = [&](const Operand& value, size_t weight) {
    return Apply(c, "aten.layer_norm",
                 {Cells(c, value), Arg::List{Scalar(w.embedding)}, c.arg(weight), c.arg(weight + 1), c.Number(9)});
  };
  auto feed_forward = [&](const Operand& value) {
    Operand inner = Linear(c, value, c.Tensor(14), c.Tensor(15));
    Operand active = Apply(c, gelu ? "aten.gelu" : "aten.relu", {Cells(c, inner)});
    return Linear(c, active, c.Tensor(16), c.Tensor(17));
  };
  Operand first = norm_first ? norm(x, 10) : x;
  Operand y = c.b.Add(x, Attend(c, {first, first, first}, w, visible, nullptr));
  if (!norm_first) y = norm(y, 10);
  Operand z = c.b.Add(y, feed_forward(norm_first ? norm(y, 12) : y));
  return norm_first ? z : norm(z, 12);
}

constexpr Rule kRules[] = {
    {"_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor "
     "qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool need_weights=True, "
     "bool average_attn_weights=True, int? mask_type=None)",
     MultiHeadAttention},
    {"_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, Tensor qkv_bias, "
     "Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, Tensor norm_weight_1, Tensor "
     "norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor "
     "ffn_weight_2, Tensor ffn_bias_2, Tensor? mask=None, int? mask_type=None)",
     EncoderLayer},
};

}  // namespace

std::span<const Rule> TransformerRules() { return kRules; }

}  // namespace ferry::torch
