// The nearest neighbours that PyTorch picks.
#pragma once

#include <optional>
#include <vector>

#include "torch/lower/builder.h"

namespace ferry::torch {

// How one of the last axes of an image is stretched.
struct Stretching {
  Scalar size;                   // that it has in the end
  std::optional<double> factor;  // that was given, which then decides about places; else the quotient of the sizes
};

// Whether ONNX's Resize picks the same neighbours, for all sizes.
bool IsSameInResize(double factor);
// One Gather for each axis; `halves`: between the middles of pixels ("nearest-exact").
Operand NearestOf(Builder& b, Operand x, const std::vector<Stretching>& axes, bool halves);

}  // namespace ferry::torch
