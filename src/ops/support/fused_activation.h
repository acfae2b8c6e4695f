// The activation that ONNX Runtime's fused operators name in an attribute.
#pragma once

#include "ops/support/compose.h"

namespace ferry {

// f(x), where f is an operator's name (none: x itself) and its attributes are given.
Term ComposeActivation(Composer& c, Term x, const std::string& name, float alpha, float beta, float gamma);

}  // namespace ferry
