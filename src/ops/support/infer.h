// Inference rules that many operators share.
#pragma once

#include "ops/infer_context.h"

namespace ferry {

// numpy's broadcasting on symbolic shapes: a name stays where the other side is 1 or the same name.
SymbolicShape BroadcastSymbolic(const SymbolicShape& a, const SymbolicShape& b);

void InferSameAsInput(InferContext& context);           // output 0 has input 0's type and shape
void InferElementwise(InferContext& context);           // output 0: input 0's element type, all inputs broadcast
void InferComparison(InferContext& context);            // output 0: bool, all inputs broadcast
// Broadcasts the shapes of inputs [first, last) and sets output 0; unknown rank when any is unknown.
void InferBroadcast(InferContext& context, DType dtype, size_t first, size_t last);

}  // namespace ferry
