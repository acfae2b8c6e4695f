// float16 computed as float32, for processors that have no arithmetic of their own for it: weights are widened once,
// values between nodes keep the digits that they would lose. Inputs and outputs of the graph keep their types, a Cast
// that the model asks for still rounds, and of tables single rows are read as they are. bfloat16 stays as it is: with
// eight bits, ONNX's own recorded answers show where every node has rounded.
#pragma once

#include "graph/model.h"

namespace ferry {

// Of a prepared graph (newest operators, no functions). One without halves, or with types that inference does not find,
// stays as it is.
void WidenHalves(Graph& graph);

}  // namespace ferry
