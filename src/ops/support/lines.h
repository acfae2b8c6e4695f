// Operators that work line by line along one axis (Softmax, CumSum …) see every line as a contiguous run.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "ops/context.h"

namespace ferry {

// y's line from x's, both `count` long, small floats as float.
using LineLoop = FunctionRef<void(const void* x, void* y, int64_t count)>;

// x and y have one shape; y's element type is x's, and they may be the same tensor.
void RunLines(const OpContext& context, const Tensor& x, Tensor& y, size_t axis, LineLoop loop);

}  // namespace ferry
