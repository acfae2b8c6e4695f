// The reductions of ScatterElements and ScatterND: out[place] = f(out[place], update), in the order of the updates.
#pragma once

#include <span>

#include "graph/model.h"
#include "tensor/tensor.h"

namespace ferry {

enum class ScatterReduction : uint8_t { kNone, kAdd, kMul, kMin, kMax };
ScatterReduction ReadScatterReduction(const Node& node);

// For each place p[k]: `run` elements of `updates` from k·run go to `out` from p[k]. `out` holds the data already; the
// places are in range. NaN wins a minimum or maximum, integers wrap around, strings can be added, min and max.
void ScatterRuns(ScatterReduction reduction, const Tensor& updates, std::span<const int64_t> places, int64_t run,
                 Tensor& out);

}  // namespace ferry
