// A Python number: known, or computed while the model runs (a size, an item of a tensor).
#pragma once

#include <complex>
#include <optional>

#include "torch/lower/operand.h"

namespace ferry::torch {

class Scalar {
 public:
  enum class Kind : uint8_t { kBool, kInt, kFloat, kComplex };

  Scalar();
  Scalar(const Scalar&);
  Scalar(Scalar&&) noexcept;
  Scalar& operator=(const Scalar&);
  Scalar& operator=(Scalar&&) noexcept;
  ~Scalar();
  Scalar(bool value);
  Scalar(int value);
  Scalar(int64_t value);
  Scalar(double value);
  Scalar(std::complex<double> value);
  // Computed: a tensor of one element (rank 0 or 1), int64, float or double, or bool. `dim` names an integer's size.
  Scalar(Kind kind, Operand computed, Dim dim = {});

  Kind kind() const { return kind_; }
  bool is_known() const { return !computed_; }
  bool is_integral() const { return kind_ == Kind::kBool || kind_ == Kind::kInt; }
  // The known value; each throws kUnsupported when it is only computed, or would lose something.
  int64_t AsInt() const;
  double AsDouble() const;
  std::complex<double> AsComplex() const;
  bool AsBool() const;

  const Operand& computed() const { return computed_; }

  // Whether it is a size, or made of sizes so that it is 0 where one of them may be.
  bool is_size() const { return is_size_ || (kind_ == Kind::kInt && is_known() && integer_ >= 0); }
  Scalar AsSize() const {
    Scalar size = *this;
    size.is_size_ = true;
    return size;
  }
  // Of a question whether there are elements: the answer when there are.
  const std::optional<bool>& if_not_empty() const { return if_not_empty_; }
  Scalar WithAnswer(std::optional<bool> if_not_empty) const {
    Scalar answer = *this;
    answer.if_not_empty_ = if_not_empty;
    return answer;
  }
  // As a dimension: a number, a name, or unknown.
  Dim AsDim() const { return !is_known() ? dim_ : is_integral() ? Dim(integer_) : Dim(); }

 private:
  Kind kind_;
  int64_t integer_ = 0;
  std::complex<double> number_ = 0;
  Operand computed_;
  Dim dim_;
  bool is_size_ = false;
  std::optional<bool> if_not_empty_;
};

}  // namespace ferry::torch

extern template class std::vector<ferry::torch::Scalar>;
