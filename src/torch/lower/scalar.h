// A Python number: known, or computed while the model runs (a size, an item of a tensor).
#pragma once

#include <complex>

#include "torch/lower/operand.h"

namespace ferry::torch {

class Scalar {
 public:
  enum class Kind : uint8_t { kBool, kInt, kFloat, kComplex };

  Scalar() : Scalar(int64_t{0}) {}
  Scalar(bool value) : kind_(Kind::kBool), integer_(value) {}
  Scalar(int value) : Scalar(int64_t{value}) {}
  Scalar(int64_t value) : kind_(Kind::kInt), integer_(value) {}
  Scalar(double value) : kind_(Kind::kFloat), number_(value) {}
  Scalar(std::complex<double> value) : kind_(Kind::kComplex), number_(value) {}
  // Computed: a tensor of one element (rank 0 or 1), int64, float or double, or bool. `dim` names an integer's size.
  Scalar(Kind kind, Operand computed, Dim dim = {})
      : kind_(kind), computed_(std::move(computed)), dim_(std::move(dim)) {}

  Kind kind() const { return kind_; }
  bool is_known() const { return !computed_; }
  bool is_integral() const { return kind_ == Kind::kBool || kind_ == Kind::kInt; }
  // The known value; each throws kUnsupported when it is only computed, or would lose something.
  int64_t AsInt() const;
  double AsDouble() const;
  std::complex<double> AsComplex() const;
  bool AsBool() const;

  const Operand& computed() const { return computed_; }
  // As a dimension: a number, a name, or unknown.
  Dim AsDim() const { return is_known() ? Dim(AsInt()) : dim_; }

 private:
  Kind kind_;
  int64_t integer_ = 0;
  std::complex<double> number_ = 0;
  Operand computed_;
  Dim dim_;
};

}  // namespace ferry::torch
