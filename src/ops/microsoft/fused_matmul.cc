// alpha · A' · B', where a matrix may be stored turned (transA, transB) and its rows in front of the batch
// (transBatchA, transBatchB). TransposeMatMul is its older name.
#include <numeric>

#include "ops/support/compose.h"

namespace ferry {

static Term Turned(Composer& c, Term x, bool turn, bool batch_inside) {
  if (!turn && !batch_inside) return x;
  size_t rank = x.rank();
  if (rank < 2) return x;  // a vector has nothing to turn
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (batch_inside) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (turn) std::swap(order[rank - 1], order[rank - 2]);
  return c.Transpose(x, order);
}

static void ComposeFusedMatMul(Composer& c) {
  const Node& node = c.node();
  Term a = Turned(c, c.In(0), node.Int("transA", 0) != 0, node.Int("transBatchA", 0) != 0);
  Term b = Turned(c, c.In(1), node.Int("transB", 0) != 0, node.Int("transBatchB", 0) != 0);
  // In front of the product, where attention has it too.
  if (float alpha = node.Float("alpha", 1); alpha != 1) a = c.Call("Mul", {a, c.Number(alpha, a.type())});
  c.Out(0, c.Call("MatMul", {a, b}));
}

FERRY_OPERATOR_IN(microsoft, FusedMatMul, (Composed<ComposeFusedMatMul>()));
FERRY_OPERATOR_IN(microsoft, TransposeMatMul, (Composed<ComposeFusedMatMul>()));
FERRY_COMPOSITION(microsoft, FusedMatMul, ComposeFusedMatMul);
FERRY_COMPOSITION(microsoft, TransposeMatMul, ComposeFusedMatMul);

}  // namespace ferry
