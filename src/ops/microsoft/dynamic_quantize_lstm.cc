// An LSTM whose weights are bytes, stored turned: W [directions, inputs, 4 · hidden], and whose inputs are rounded to
// bytes too. ONNX Runtime rounds the state between steps as well; here it stays as it is.
#include "ops/support/compose.h"

namespace ferry {

static Term RealWeights(Composer& c, Term weights, Term scale, Term zero_point) {
  int64_t directions = weights.size(0);
  auto spread = [&](Term term) { return c.Reshape(c.Cast(term, DType::kFloat), {directions, 1, -1}); };
  Term numbers = c.Call("Sub", {c.Cast(weights, DType::kFloat), spread(zero_point)});
  return c.Transpose(c.Call("Mul", {numbers, spread(scale)}), {0, 2, 1});
}

static void ComposeDynamicQuantizeLSTM(Composer& c) {
  Require(c.In(1).rank() == 3 && c.In(2).rank() == 3, "W and R must have 3 axes");
  Term w = RealWeights(c, c.In(1), c.In(8), c.In(9)), r = RealWeights(c, c.In(2), c.In(10), c.In(11));
  std::vector<Term> bytes = c.CallMany("DynamicQuantizeLinear", {c.In(0)}, 3);
  Term x = c.Call("DequantizeLinear", {bytes[0], bytes[1], bytes[2]});
  std::vector<Term> results = c.CallMany("LSTM", {x, w, r, c.In(3), c.In(4), c.In(5), c.In(6), c.In(7)}, 3,
                                         c.Keep({"activation_alpha", "activation_beta", "activations", "clip",
                                                 "direction", "hidden_size", "input_forget"}));
  for (size_t i = 0; i < 3; ++i) c.Out(i, results[i]);
}

FERRY_OPERATOR_IN(microsoft, DynamicQuantizeLSTM, (Composed<ComposeDynamicQuantizeLSTM>()));
FERRY_COMPOSITION(microsoft, DynamicQuantizeLSTM, ComposeDynamicQuantizeLSTM);

}  // namespace ferry
