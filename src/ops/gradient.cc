#include "ops/operator.h"

namespace ferry {

// Gradient is a statement about the graph around it; passes/gradient writes it out before anything runs.
static void RefuseGradient(OpContext&) {
  Fail(ErrorCode::kInternal, "Gradient nodes must be expanded before a graph is run");
}

// Each derivative has the type and shape of its variable.
static void InferGradient(InferContext& context) {
  for (size_t i = 0; i < context.output_count(); ++i) context.SetOutput(i, context.InputType(i));
}

FERRY_OPERATOR_IN(training, Gradient, {.compute = RefuseGradient, .infer = InferGradient});

}  // namespace ferry
