// Parts of ONNX Runtime's fused operators: activations that an attribute names, and sums in front of a normalisation.
#pragma once

#include "ops/support/compose.h"

namespace ferry {

// f(x), where f is an operator's name (none: x itself) and its attributes are given.
Term ComposeActivation(Composer& c, Term x, const std::string& name, float alpha, float beta, float gamma);

// Inputs 0 and 1 and perhaps a bias, small floats as float. The bias goes to the one that a product makes.
Term SkipSum(Composer& c, Term bias);

}  // namespace ferry
