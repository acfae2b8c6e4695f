#include "ops/support/compose_attention.h"

#include "ops/support/scalar.h"

namespace ferry {
namespace {

// [batch, length, heads · size] as [batch, heads, length, size].
Term ToHeads(Composer& c, Term rows, int64_t heads) {
  return c.Transpose(c.Reshape(rows, {0, 0, heads, -1}), {0, 2, 1, 3});
}

Term LengthOf(Composer& c, Term term, int64_t axis) { return c.ShapeOf(term, axis, axis + 1); }

// One element of the past's first axis.
Term HalfOf(Composer& c, Term past, int64_t at) { return c.Call("Gather", {past, c.Int(at)}); }

}  // namespace

float MaskFilterValue(const Node& node) { return node.Float("mask_filter_value", -10000.0f); }

int64_t HeadsAttribute(const Node& node, std::string_view name) {
  int64_t heads = node.Int(name, 0);
  Require(heads > 0 && heads < (1 << 20), "attribute '", name, "' must be 1 or more, is ", heads);
  return heads;
}

AttentionTerms ComposeAttention(Composer& c, const ComposedAttention& a, size_t wanted) {
  DType type = a.q.type();
  bool by_heads = a.k.rank() == 4;
  Term q = c.Widen(by_heads ? ToHeads(c, a.q, a.heads) : a.q);
  Settings attributes;
  if (!by_heads) {
    attributes.emplace_back("q_num_heads", a.heads);
    attributes.emplace_back("kv_num_heads", a.heads);
  }
  if (a.scale != 0) attributes.emplace_back("scale", a.scale);
  // A single query sees everything.
  const Dim& queries = a.q.shape()[1];
  if (a.is_causal && !(queries.known() && *queries.value == 1)) attributes.emplace_back("is_causal", int64_t{1});
  if (wanted > 3) attributes.emplace_back("qk_matmul_output_mode", int64_t{2});
  std::vector<Term> results = c.CallMany(
      "Attention", {q, c.Widen(a.k), c.Widen(a.v), c.Widen(a.mask), c.Widen(a.past_key), c.Widen(a.past_value)}, wanted,
      attributes);
  results.resize(4);
  for (Term& result : results)
    if (result) result = c.Cast(result, type);
  Term y = by_heads ? c.Reshape(c.Transpose(results[0], {0, 2, 1, 3}), {0, 0, -1}) : results[0];
  return {y, results[1], results[2], results[3]};
}

Term ComposeMask(Composer& c, Term mask, Term batch_of, Term total, float masked) {
  Term seen;
  if (mask.rank() == 1) {
    // [batch] or [2 · batch]: where keys end, and where they begin.
    const Dim &count = mask.shape()[0], &batch = batch_of.shape()[0];
    bool has_starts = false;
    if (!SameDim(count, batch)) {
      if (!count.known() || !batch.known()) throw NotKnownYet();
      Require(*count.value == 2 * *batch.value, "a mask of ", *count.value, " lengths does not fit ", *batch.value,
              " sequences");
      has_starts = true;
    }
    Term from = c.Int(0), step = c.Int(1);
    Term positions = c.Call("Range", {from, c.Reshape(total, {}), step});
    Term limits = c.Cast(mask, DType::kInt64);
    auto column = [&](int64_t begin, int64_t end) { return c.Reshape(c.Slice(limits, 0, begin, end), {-1, 1}); };
    if (has_starts) {
      int64_t split = *batch.value;
      seen = c.Call("And", {c.Call("Less", {positions, column(0, split)}),
                            c.Call("GreaterOrEqual", {positions, column(split, 2 * split)})});
    } else {
      seen = c.Call("Less", {positions, c.Reshape(limits, {-1, 1})});
    }
  } else {
    Require(mask.rank() == 2 || mask.rank() == 3, "a mask must have 1 to 3 axes, has ", mask.rank());
    seen = c.Call("Greater", {mask, c.Number(0, mask.type())});
  }
  Term values = c.Call("Where", {seen, c.Number(0, DType::kFloat), c.Number(masked, DType::kFloat)});
  return c.Call("Unsqueeze", {values, mask.rank() == 3 ? c.Ints({1}) : c.Ints({1, 2})});
}

Term ComposeMaskAndBias(Composer& c, Term mask, Term bias, const ComposedAttention& attention) {
  if (!mask) return c.Widen(bias);
  Term total = LengthOf(c, attention.k, attention.k.rank() == 4 ? 2 : 1);
  if (attention.past_key) total = c.Call("Add", {total, LengthOf(c, attention.past_key, 2)});
  Term values = ComposeMask(c, mask, attention.q, total, MaskFilterValue(c.node()));
  return bias ? c.Call("Add", {c.Widen(bias), values}) : values;
}

Term AddBiasPart(Composer& c, Term rows, Term bias, int64_t begin) {
  if (!bias) return rows;
  return c.Call("Add", {rows, c.Slice(bias, 0, begin, begin + rows.size(2))});
}

void ComposeProjected(Composer& c, const ProjectedAttention& projected) {
  const Node& node = c.node();
  Require(node.Int("do_rotary", 0) == 0, "do_rotary is not supported here, nor by ONNX Runtime on a CPU");
  ComposedAttention attention;
  attention.heads = HeadsAttribute(node);
  attention.scale = node.Float("scale", 0);
  attention.is_causal = node.Int("unidirectional", 0) != 0;
  int64_t width = projected.rows.size(2);
  std::vector<int64_t> sizes = node.Ints("qkv_hidden_sizes");
  if (sizes.empty()) sizes.assign(3, width / 3);
  Require(sizes.size() == 3, "qkv_hidden_sizes must have 3 numbers, has ", sizes.size());
  for (int64_t size : sizes)
    Require(size > 0 && size <= width && size % attention.heads == 0, "rows of ", size, " cannot be cut into ",
            attention.heads, " heads");
  Require(sizes[0] == sizes[1] && sizes[0] + sizes[1] + sizes[2] == width, "rows of ", width,
          " are not made of queries of ", sizes[0], ", keys of ", sizes[1], " and values of ", sizes[2]);
  std::vector<Term> parts = c.CallMany("Split", {projected.rows, c.Ints(sizes)}, 3, {{"axis", int64_t{2}}});
  attention.q = parts[0];
  attention.k = parts[1];
  attention.v = parts[2];
  if (projected.past) {
    Require(projected.past.rank() == 5, "past must have 5 axes, has ", projected.past.rank());
    attention.past_key = HalfOf(c, projected.past, 0);
    attention.past_value = HalfOf(c, projected.past, 1);
  }
  attention.mask = ComposeMaskAndBias(c, projected.mask, projected.bias, attention);
  AttentionTerms terms = ComposeAttention(c, attention, c.Wants(1) ? 3 : 1);
  c.Out(0, terms.y);
  if (!c.Wants(1)) return;
  Term first = c.Ints({0});
  c.Out(1, c.Call("Concat", {c.Call("Unsqueeze", {terms.key, first}), c.Call("Unsqueeze", {terms.value, first})},
                  {{"axis", int64_t{0}}}));
}

// The rows that each beam has seen: for [batch · beams, heads, length, size] row j comes from beam indices[b, j].
static Term ReorderBeams(Composer& c, Term past, Term indirection, int64_t length) {
  Require(indirection.rank() == 3, "cache_indirection must have 3 axes, has ", indirection.rank());
  int64_t batch = indirection.size(0), beams = indirection.size(1), most = indirection.size(2), heads = past.size(1);
  Require(batch * beams == past.size(0) && length <= most, "cache_indirection [", batch, ", ", beams, ", ", most,
          "] does not fit a cache of ", past.size(0), " beams and ", length, " positions");
  std::vector<int64_t> from = ToInt64Vector(indirection.value()), places;
  for (int64_t b = 0; b < batch * beams; ++b)
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t j = 0; j < length; ++j) {
        int64_t beam = from[static_cast<size_t>(b * most + j)];
        Require(beam >= 0 && beam < beams, "cache_indirection has beam ", beam, ", there are ", beams);
        places.insert(places.end(), {b / beams * beams + beam, head, j});
      }
  Tensor indices = Tensor::FromVector(places, Shape{batch * beams, heads, length, 3});
  return c.Call("GatherND", {past, c.Constant(std::move(indices))});
}

void ComposeDecoder(Composer& c, const DecoderInputs& in) {
  const Node& node = c.node();
  ComposedAttention attention;
  attention.heads = HeadsAttribute(node);
  attention.scale = node.Float("scale", 0);
  Require(in.query.rank() == 3 && in.query.size(1) == 1, "query must have shape [batch, 1, hidden]");
  int64_t hidden = in.query.size(2);
  attention.q = AddBiasPart(c, in.query, in.bias, 0);
  attention.k = in.key;
  attention.v = in.value;
  if (!in.past_key) {
    attention.mask = ComposeMaskAndBias(c, in.mask, in.attention_bias, attention);
    AttentionTerms terms = ComposeAttention(c, attention, c.Wants(3) ? 4 : 1);
    c.Out(0, terms.y);
    c.Out(3, terms.scores);
    return;
  }
  Require(in.key && in.value && in.past_value && in.past_length,
          "key, value, past_value and past_sequence_length are needed beside past_key");
  int64_t past = ScalarInt(in.past_length.value(), "past_sequence_length"), most = in.past_key.size(2);
  Require(past >= 0 && past < most, "past_sequence_length is ", past, ", the cache has room for ", most);
  Term key = ToHeads(c, AddBiasPart(c, in.key, in.bias, hidden), attention.heads);
  Term value = ToHeads(c, AddBiasPart(c, in.value, in.bias, 2 * hidden), attention.heads);
  auto seen = [&](Term cache) {
    Term rows = c.Slice(cache, 2, 0, past);
    return in.cache_indirection ? ReorderBeams(c, rows, in.cache_indirection, past) : rows;
  };
  attention.k = c.Call("Concat", {seen(in.past_key), key}, {{"axis", int64_t{2}}});
  attention.v = c.Call("Concat", {seen(in.past_value), value}, {{"axis", int64_t{2}}});
  attention.mask = ComposeMaskAndBias(c, in.mask, in.attention_bias, attention);
  AttentionTerms terms = ComposeAttention(c, attention, c.Wants(3) ? 4 : 1);
  c.Out(0, terms.y);
  c.Out(3, terms.scores);
  Term places = c.Constant(Tensor::FromVector(std::vector<int64_t>(static_cast<size_t>(in.query.size(0)), past)));
  c.Out(1, c.Call("TensorScatter", {in.past_key, key, places}));
  c.Out(2, c.Call("TensorScatter", {in.past_value, value, places}));
}

}  // namespace ferry
