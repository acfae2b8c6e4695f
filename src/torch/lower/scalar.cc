#include "torch/lower/scalar.h"

#include <cmath>

#include "base/error.h"

template class std::vector<ferry::torch::Scalar>;

namespace ferry::torch {

Scalar::Scalar() : Scalar(int64_t{0}) {}
Scalar::Scalar(const Scalar&) = default;
Scalar::Scalar(Scalar&&) noexcept = default;
Scalar& Scalar::operator=(const Scalar&) = default;
Scalar& Scalar::operator=(Scalar&&) noexcept = default;
Scalar::~Scalar() = default;
Scalar::Scalar(bool value) : kind_(Kind::kBool), integer_(value) {}
Scalar::Scalar(int value) : Scalar(int64_t{value}) {}
Scalar::Scalar(int64_t value) : kind_(Kind::kInt), integer_(value) {}
Scalar::Scalar(double value) : kind_(Kind::kFloat), number_(value) {}
Scalar::Scalar(std::complex<double> value) : kind_(Kind::kComplex), number_(value) {}
Scalar::Scalar(Kind kind, Operand computed, Dim dim)
    : kind_(kind), computed_(std::move(computed)), dim_(std::move(dim)) {}

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
