// Batch normalisation at inference is a factor and an offset for each channel.
#pragma once

#include <optional>
#include <vector>

#include "graph/editor.h"

namespace ferry {

struct ChannelAffine {
  std::vector<double> factor, offset;
};

// Of a BatchNormalization node of float whose statistics are constants and whose other outputs nobody wants.
std::optional<ChannelAffine> MatchBatchNorm(const GraphEditor& editor, const Node& node);

}  // namespace ferry
