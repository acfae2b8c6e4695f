// The standard's LinearAttention; here several heads of keys may also share one of queries.
#include "ops/support/compose_attention.h"

namespace ferry {

static void ComposeLinearAttention(Composer& c) {
  const Node& node = c.node();
  Require(node.Int("state_window", 0) == 0, "only state_window 0 is supported");
  int64_t queries = HeadsAttribute(node, "q_num_heads"), keys = HeadsAttribute(node, "kv_num_heads");
  Term q = c.In(0);
  if (keys > queries) {
    Require(keys % queries == 0, "kv_num_heads ", keys, " must be a multiple of q_num_heads ", queries);
    Term one = c.Call("Unsqueeze", {c.Reshape(q, {0, 0, queries, -1}), c.Ints({3})});
    Term many = c.Call("Expand", {one, c.Ints({1, 1, 1, keys / queries, 1})});
    q = c.Reshape(many, {0, 0, -1});
    queries = keys;
  }
  Settings attributes = c.Keep({"chunk_size", "scale", "update_rule"});
  attributes.emplace_back("q_num_heads", queries);
  attributes.emplace_back("kv_num_heads", keys);
  std::vector<Term> results =
      c.CallMany("LinearAttention", {q, c.In(1), c.In(2), c.In(3), c.In(4), c.In(5)}, 2, attributes);
  c.Out(0, results[0]);
  c.Out(1, results[1]);
}

FERRY_OPERATOR_IN(microsoft, LinearAttention, (Composed<ComposeLinearAttention>()));
FERRY_COMPOSITION(microsoft, LinearAttention, ComposeLinearAttention);

}  // namespace ferry
