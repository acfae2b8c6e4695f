#include "torch/lower/scalar.h"

#include <cmath>

#include "base/error.h"

namespace ferry::torch {

static void RequireKnown(bool known) {
  if (!known)
    Fail(ErrorCode::kUnsupported,
         "a number that is only known while the model runs stands where ONNX needs a constant");
}

int64_t Scalar::AsInt() const {
  RequireKnown(is_known());
  if (is_integral()) return integer_;
  double value = AsDouble();
  if (value != std::trunc(value) || std::abs(value) >= 0x1p62)
    Fail(ErrorCode::kUnsupported, "the number ", value, " stands where an integer is needed");
  return static_cast<int64_t>(value);
}

double Scalar::AsDouble() const {
  RequireKnown(is_known());
  if (is_integral()) return static_cast<double>(integer_);
  if (number_.imag() != 0) Fail(ErrorCode::kUnsupported, "a complex number stands where a real one is needed");
  return number_.real();
}

std::complex<double> Scalar::AsComplex() const {
  RequireKnown(is_known());
  return is_integral() ? std::complex<double>(static_cast<double>(integer_)) : number_;
}

bool Scalar::AsBool() const {
  RequireKnown(is_known());
  return is_integral() ? integer_ != 0 : number_ != 0.0;
}

}  // namespace ferry::torch
