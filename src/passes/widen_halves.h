// float16 computed as float32, for processors that have no arithmetic of their own for it: weights are widened once,
// values between nodes keep the digits that they would lose. Inputs and outputs of the graph keep their types, a Cast
// that the model asks for still rounds, and of tables single rows are read as they are. bfloat16 stays as it is: with
// eight bits, ONNX's own recorded answers show where every node has rounded.
#pragma once

#include "passes/widener.h"

namespace ferry {

// Of a prepared graph (newest operators, no functions). One without halves, or with types that inference does not find,
// stays as it is.
WidenedWeights WidenHalves(Graph& graph);

// Once all other passes have run: the matrices among these weights that are read by products alone become halves again,
// which the kernel takes, so that they are not in memory as floats beside what is packed of them.
void NarrowMatrices(Graph& graph, const WidenedWeights& weights);

}  // namespace ferry
