// The means by which special functions become ONNX: polynomials, sums over the nodes of a quadrature, asymptotic
// series. Everything is computed in double and given back in the type of the argument.
#pragma once

#include <functional>
#include <vector>

#include "torch/lower/call.h"

namespace ferry::torch {

using Doubles = std::vector<double>;

Operand DoubleVector(Builder& b, const Doubles& values);
// coefficients[0] + coefficients[1]·x + …
Operand PolynomialOf(Builder& b, const Operand& x, const Doubles& coefficients);
// Σ weights[k] · function(x · nodes[k])
Operand QuadratureOf(Builder& b, const Operand& x, const Doubles& nodes, const Doubles& weights,
                     const std::function<Operand(const Operand&)>& function);
Operand ClipTo(Builder& b, const Operand& x, double lowest, double highest);
// `near` where x is at most `border`, `far` beyond; each is given arguments of its own side only.
Operand ByDistance(Builder& b, const Operand& x, double border, const std::function<Operand(const Operand&)>& near,
                   const std::function<Operand(const Operand&)>& far);
// sin(πx), exactly 0 at whole numbers.
Operand SinPiOf(Builder& b, const Operand& x);

// The result for one floating (or integer) argument, by a function on doubles. NaN stays NaN.
Operand OnDoubles(Call& c, size_t argument, const std::function<Operand(const Operand&)>& function);
// The same for two arguments of common type, which broadcast.
Operand OnDoubles(Call& c, size_t first, size_t second,
                  const std::function<Operand(const Operand&, const Operand&)>& function);

// Special functions that others are made of; the arguments are doubles.
Operand ErfcOf(Builder& b, const Operand& x);
Operand LgammaOf(Builder& b, const Operand& x);

}  // namespace ferry::torch
