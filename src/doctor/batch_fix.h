// Sets a baked-in batch size free, and proves that samples stay what they are beside any number of others.
#pragma once

#include "doctor/batch_plan.h"
#include "doctor/lint.h"

namespace ferry {

// Carries out a plan on the model it was made for; the model's own opset and operators stay. Returns the name that the
// batch dimension has from now on. Throws kUnsupported when the plan does not fit the model's older operators.
std::string FreeBatch(Model& model, const BatchPlan& plan);

// Batches of 1, 2, 3 and 5 samples give what the samples give one by one.
void ProveSamplesApart(const Model& mended, const BatchPlan& plan, const std::string& dimension, Proof& proof);

}  // namespace ferry
