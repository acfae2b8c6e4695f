#include "ops/support/compose_quantized.h"

namespace ferry {

Term ScalarOf(Composer& c, Term term) {
  bool is_one = term && term.rank() == 1 && term.shape()[0].known() && *term.shape()[0].value == 1;
  return is_one ? c.Reshape(term, {}) : term;
}

Term Real(Composer& c, Term x, Term scale, Term zero_point) {
  return c.Call("DequantizeLinear", {x, ScalarOf(c, scale), ScalarOf(c, zero_point)});
}

Term Real(Composer& c, size_t i) { return Real(c, c.In(i), c.In(i + 1), c.In(i + 2)); }

Term Quantized(Composer& c, Term x, Term scale, Term zero_point, DType type) {
  Term zero = zero_point ? ScalarOf(c, zero_point) : c.Number(0, type);
  return c.Call("QuantizeLinear", {x, ScalarOf(c, scale), zero});
}

Term ChannelsFirst(Composer& c, Term x) {
  std::vector<int64_t> order{0, static_cast<int64_t>(x.rank()) - 1};
  for (int64_t axis = 1; axis + 1 < static_cast<int64_t>(x.rank()); ++axis) order.push_back(axis);
  return c.Transpose(x, order);
}

Term ChannelsLast(Composer& c, Term x) {
  std::vector<int64_t> order{0};
  for (int64_t axis = 2; axis < static_cast<int64_t>(x.rank()); ++axis) order.push_back(axis);
  order.push_back(1);
  return c.Transpose(x, order);
}

}  // namespace ferry
