// RotaryEmbedding with three positions for each token (time, height, width): every angle takes one of them, in
// sections one after the other (mrope_layout 0) or in turns (1).
#include "ops/support/compose.h"

namespace ferry {

// Which position each of `count` angles takes, as ones in [3, 1, 1, count].
static Tensor Choice(const Node& node, int64_t count) {
  std::vector<int64_t> section = node.Ints("mrope_section");
  int64_t layout = node.Int("mrope_layout", 0), total = 0;
  Require(section.size() == 3, "mrope_section must have 3 numbers, has ", section.size());
  Require(layout == 0 || layout == 1, "mrope_layout must be 0 or 1, is ", layout);
  for (int64_t part : section) {
    Require(part >= 0 && part <= count, "mrope_section has ", part, ", there are ", count, " angles");
    total += part;
  }
  Require(total == count, "mrope_section adds up to ", total, ", there are ", count, " angles");
  std::vector<int64_t> chosen(static_cast<size_t>(count));
  if (layout == 0) {
    for (int64_t i = section[0]; i < count; ++i) chosen[static_cast<size_t>(i)] = i < section[0] + section[1] ? 1 : 2;
  } else {
    for (int64_t stream = 1; stream < 3; ++stream)
      for (int64_t i = stream; i < std::min(3 * section[static_cast<size_t>(stream)], count); i += 3)
        chosen[static_cast<size_t>(i)] = stream;
  }
  Tensor ones = Tensor::Zeros(DType::kFloat, Shape{3, 1, 1, count});
  for (int64_t i = 0; i < count; ++i) ones.MutableData<float>()[chosen[static_cast<size_t>(i)] * count + i] = 1;
  return ones;
}

static void ComposeMRotaryEmbedding(Composer& c) {
  Term x = c.In(0), positions = c.In(1);
  DType type = x.type();
  Require(positions.rank() == 3, "position_ids must have 3 axes, has ", positions.rank());
  Require(c.In(2).rank() == 2 && c.In(3).rank() == 2, "the caches must have 2 axes");
  int64_t count = c.In(2).size(1), heads = c.node().Int("num_heads", 0);
  if (x.rank() == 3 && heads == 0) {
    Require(count > 0 && x.size(2) % (2 * count) == 0, "rows of ", x.size(2), " cannot be cut into heads of ",
            2 * count, ", as the caches say");
    heads = x.size(2) / (2 * count);
  }
  Term choice = c.Constant(Choice(c.node(), count));
  float scale = c.node().Float("scale", 1);
  auto angles = [&](Term cache) {
    Term all = c.Call("Mul", {c.Call("Gather", {c.Widen(cache), positions}), choice});
    Term one = c.Call("ReduceSum", {all, c.Ints({0})}, {{"keepdims", int64_t{0}}});
    if (scale != 1) one = c.Call("Mul", {one, c.Number(scale, DType::kFloat)});
    return c.Cast(one, type);
  };
  Settings attributes = c.Keep({"interleaved", "rotary_embedding_dim"});
  if (x.rank() == 3) attributes.emplace_back("num_heads", heads);
  c.Out(0, c.Call("RotaryEmbedding", {x, angles(c.In(2)), angles(c.In(3))}, attributes));
}

FERRY_OPERATOR_IN(microsoft, MRotaryEmbedding, (Composed<ComposeMRotaryEmbedding>()));
FERRY_COMPOSITION(microsoft, MRotaryEmbedding, ComposeMRotaryEmbedding);

}  // namespace ferry
