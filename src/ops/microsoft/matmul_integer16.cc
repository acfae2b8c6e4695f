// A product of 16-bit integers; sums wrap in 32 bits.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeMatMulInteger16(Composer& c) {
  c.Out(0, c.Call("MatMul", {c.Cast(c.In(0), DType::kInt32), c.Cast(c.In(1), DType::kInt32)}));
}

FERRY_OPERATOR_IN(microsoft, MatMulInteger16, (Composed<ComposeMatMulInteger16>()));
FERRY_COMPOSITION(microsoft, MatMulInteger16, ComposeMatMulInteger16);

}  // namespace ferry
