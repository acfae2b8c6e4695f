// Transposed convolutions: attributes, sizes, and where every tap of the window lands.
#pragma once

#include <optional>

#include "ops/support/conv.h"

namespace ferry {

struct TransposePlan {
  int64_t batch = 0, channels = 0, groups = 1, group_channels = 0, group_features = 0;
  // `input` and `output` keep the meaning of the convolution's data: the window slides over the output.
  std::vector<WindowAxis> axes;
  WindowCounts counts;
  Shape output;  // channels first

  // Weights are [channels, features / groups, kernel…].
  TransposePlan(const Node& node, const Shape& x, const Shape& w);
};

// Either shape may be null; nothing when neither is known.
std::optional<SymbolicShape> InferTransposedConv(const Node& node, const SymbolicShape* x, const SymbolicShape* w);

}  // namespace ferry
