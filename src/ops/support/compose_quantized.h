// Quantised operators as DequantizeLinear, the operator on numbers, and QuantizeLinear.
#pragma once

#include "ops/support/compose.h"

namespace ferry {

// A scale or zero point of one element, whatever its rank, as a scalar.
inline Term ScalarOf(Composer& c, const Term& term) {
  return term && term.rank() == 1 && term.shape()[0].known() && *term.shape()[0].value == 1 ? c.Reshape(term, {})
                                                                                            : term;
}

inline Term Real(Composer& c, const Term& x, const Term& scale, const Term& zero_point) {
  return c.Call("DequantizeLinear", {x, ScalarOf(c, scale), ScalarOf(c, zero_point)});
}
// Input i with its scale and zero point, the next two.
inline Term Real(Composer& c, size_t i) { return Real(c, c.In(i), c.In(i + 1), c.In(i + 2)); }

// Without a zero point, the type is that of the inputs.
inline Term Quantized(Composer& c, const Term& x, const Term& scale, const Term& zero_point, DType type) {
  Term zero = zero_point ? ScalarOf(c, zero_point) : c.Number(0, type);
  return c.Call("QuantizeLinear", {x, ScalarOf(c, scale), zero});
}

// For operators with an attribute channels_last: an image with its channels in front, and the way back.
inline Term ChannelsFirst(Composer& c, const Term& x) {
  std::vector<int64_t> order{0, static_cast<int64_t>(x.rank()) - 1};
  for (int64_t axis = 1; axis + 1 < static_cast<int64_t>(x.rank()); ++axis) order.push_back(axis);
  return c.Transpose(x, std::move(order));
}
inline Term ChannelsLast(Composer& c, const Term& x) {
  std::vector<int64_t> order{0};
  for (int64_t axis = 2; axis < static_cast<int64_t>(x.rank()); ++axis) order.push_back(axis);
  order.push_back(1);
  return c.Transpose(x, std::move(order));
}

}  // namespace ferry
