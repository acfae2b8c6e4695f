#include "ops/operator.h"

namespace ferry {

static void ComputeIdentity(OpContext& context) { context.SetOutput(0, context.InputValue(0)); }

static void InferIdentity(InferContext& context) { context.SetOutputFacts(0, context.InputFacts(0)); }

FERRY_OPERATOR(Identity, {.compute = ComputeIdentity,
                          .infer = InferIdentity,
                          .is_view = true,
                          .elementwise = Elementwise::kOfOne,
                          .moves_elements = true});

}  // namespace ferry
