// The standard's RotaryEmbedding with the caches behind the positions, positions that may be one offset for all, and
// heads that may follow from the caches' width. The attributes scale and is_packed_batching change nothing on a CPU.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeRotaryEmbedding(Composer& c) {
  Term x = c.In(0);
  Require(x.rank() == 3 || x.rank() == 4, "the input must have 3 or 4 axes, has ", x.rank());
  Term positions = c.In(1);
  int64_t heads = c.node().Int("num_heads", 0), width = c.node().Int("rotary_embedding_dim", 0);
  Require(heads >= 0 && width >= 0, "num_heads and rotary_embedding_dim must not be negative, are ", heads, " and ",
          width);
  Require(c.In(2).rank() == 2, "cos_cache must have 2 axes, has ", c.In(2).rank());
  if (x.rank() == 3 && heads == 0) {
    int64_t hidden = x.size(2), head = 2 * c.In(2).size(1);
    Require(width == 0, "rotary_embedding_dim needs num_heads");
    Require(head > 0 && hidden % head == 0, "rows of ", hidden, " cannot be cut into heads of ", head,
            ", as the caches say");
    heads = hidden / head;
  }
  if (positions.rank() < 2) {
    Require(positions.rank() == 0 || positions.size(0) == 1, "position_ids must be one offset or have 2 axes");
    int64_t axis = x.rank() == 3 ? 1 : 2;
    Term batch = c.ShapeOf(x, 0, 1);
    Term length = c.ShapeOf(x, axis, axis + 1);
    Term from = c.Int(0), step = c.Int(1);
    Term row = c.Call("Add", {c.Call("Range", {from, c.Reshape(length, {}), step}), c.Reshape(positions, {1})});
    positions = c.Call("Expand", {row, c.Call("Concat", {batch, length}, {{"axis", int64_t{0}}})});
  }
  Settings attributes = c.Keep({"interleaved", "rotary_embedding_dim"});
  if (x.rank() == 3) attributes.emplace_back("num_heads", heads);
  c.Out(0, c.Call("RotaryEmbedding", {x, c.In(2), c.In(3), positions}, attributes));
}

FERRY_OPERATOR_IN(microsoft, RotaryEmbedding, (Composed<ComposeRotaryEmbedding>()));
FERRY_COMPOSITION(microsoft, RotaryEmbedding, ComposeRotaryEmbedding);

}  // namespace ferry
