// The symbolic sizes of exported programs, which are sympy expressions written as text.
#pragma once

#include <string>
#include <string_view>

#include "graph/type.h"

namespace ferry::torch {

// A number, or a name that is the expression in plain notation: both "Mul(Integer(2), Symbol('s0', integer=True))", as
// newer PyTorch writes, and "2*s0" become "2*s0". Expressions are compared by this text. Throws on nonsense.
Dim ParseDimExpression(std::string_view text);

}  // namespace ferry::torch
