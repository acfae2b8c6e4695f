// ONNX Runtime's attention operators, said with the standard's Attention.
#pragma once

#include "ops/support/compose.h"

namespace ferry {

struct ComposedAttention {
  Term q, k, v;               // [batch, length, heads · size]; k and v also [batch, heads, length, size]
  Term past_key, past_value;  // [batch, heads, length, size], or none
  Term mask;                  // added to the scores [batch, heads, queries, keys], or none
  int64_t heads = 0;
  float scale = 0;  // 0: 1 / √size
  bool is_causal = false;
};

struct AttentionTerms {
  Term y;           // [batch, queries, heads · size]
  Term key, value;  // with the past in front
  Term scores;      // before the softmax
};

// `wanted`: how many of the terms are needed, in their order.
AttentionTerms ComposeAttention(Composer& c, const ComposedAttention& attention, size_t wanted);

// What masks of the contributed operators add to the scores: lengths [batch], ends and starts [2 · batch], a row
// [batch, keys] or a table [batch, queries, keys] of ones and zeros.
Term ComposeMask(Composer& c, Term mask, Term batch_of, Term total, float masked);
// As ComposeMask, with a bias added; either may be none.
Term ComposeMaskAndBias(Composer& c, Term mask, Term bias, const ComposedAttention& attention);

// [begin, begin + rows' width) of a bias added to rows; rows themselves without a bias.
Term AddBiasPart(Composer& c, Term rows, Term bias, int64_t begin);

// Attention and QAttention: projected rows cut into three and attended to. Inputs by number of the node.
struct ProjectedAttention {
  Term rows;              // [batch, length, q + k + v]
  Term mask, past, bias;  // past: [2, batch, heads, length, size]
};
void ComposeProjected(Composer& c, const ProjectedAttention& projected);

// One new token per sequence against caches that are longer than what is in them; by beams where `cache_indirection`
// says which beam each earlier position belongs to. Outputs: y, both caches, scores.
struct DecoderInputs {
  Term query, key, value, mask, attention_bias, past_key, past_value, past_length, cache_indirection, bias;
};
void ComposeDecoder(Composer& c, const DecoderInputs& inputs);

float MaskFilterValue(const Node& node);
int64_t HeadsAttribute(const Node& node, std::string_view name = "num_heads");

}  // namespace ferry
