// Writing updates over a copy of data, in data's own memory where the engine gave it to the output.
#pragma once

#include "base/function_ref.h"
#include "ops/context.h"

namespace ferry {

// Output 0 becomes `data`; then write(updates, out) changes it. Both are movable and do not share memory.
void ScatterOver(OpContext& context, const Tensor& data, const Tensor& updates,
                 FunctionRef<void(const Tensor&, Tensor&)> write);

}  // namespace ferry
