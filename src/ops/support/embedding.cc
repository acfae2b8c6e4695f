#include "ops/support/embedding.h"

namespace ferry {

void ComposeEmbedding(Composer& c, const EmbeddingInputs& in) {
  Require(static_cast<bool>(in.segments) == static_cast<bool>(in.segment_table),
          "segment_ids and segment_embedding must be given together");
  Require(in.ids.rank() == 2, "input_ids must have 2 axes, has ", in.ids.rank());
  Term length = c.ShapeOf(in.ids, 1, 2);
  Term position = in.position_ids;
  if (!position) {
    Term last = c.Reshape(length, {});
    position = c.Call("Range", {c.Int(0), last, c.Int(1)});
  }
  Term sum = c.Call("Add", {c.Call("Gather", {in.words, in.ids}), c.Call("Gather", {in.positions, position})});
  if (in.segments) sum = c.Call("Add", {sum, c.Call("Gather", {in.segment_table, in.segments})});
  c.Out(0, c.Call("LayerNormalization", {sum, in.gamma, in.beta},
                  {{"axis", int64_t{-1}}, {"epsilon", c.node().Float("epsilon", 1e-12f)}}));
  if (c.Wants(1)) {
    Term ones = in.mask ? c.Call("Equal", {in.mask, c.Constant(Tensor::Scalar<int32_t>(1))})
                        : c.Call("Cast", {c.Call("Mul", {in.ids, c.Constant(Tensor::Scalar<int32_t>(0))})},
                                 {{"to", static_cast<int64_t>(DType::kBool)}});
    c.Out(1, c.Call("ReduceSum", {c.Cast(ones, DType::kInt32), c.Ints({1})}, {{"keepdims", int64_t{0}}}));
  }
  c.Out(2, sum);
}

}  // namespace ferry
