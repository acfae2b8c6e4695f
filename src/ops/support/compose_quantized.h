// Quantised operators as DequantizeLinear, the operator on numbers, and QuantizeLinear.
#pragma once

#include "ops/support/compose.h"

namespace ferry {

// A scale or zero point of one element, whatever its rank, as a scalar.
Term ScalarOf(Composer& c, Term term);

Term Real(Composer& c, Term x, Term scale, Term zero_point);
// Input i with its scale and zero point, the next two.
Term Real(Composer& c, size_t i);

// Without a zero point, the type is that of the inputs.
Term Quantized(Composer& c, Term x, Term scale, Term zero_point, DType type);

// For operators with an attribute channels_last: an image with its channels in front, and the way back.
Term ChannelsFirst(Composer& c, Term x);
Term ChannelsLast(Composer& c, Term x);

}  // namespace ferry
