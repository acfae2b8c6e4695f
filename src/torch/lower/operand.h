// A value of the ONNX graph that is being built, with everything known about it.
#pragma once

#include <memory>
#include <string>

#include "ops/infer_context.h"

namespace ferry::torch {

// Copies are handles to one value. A default one is absent: an optional input that is not given.
//
// PyTorch's complex tensors are real ones here whose last dimension of 2 holds the real and the imaginary part.
// dtype(), rank() and shape() speak of the tensor as PyTorch sees it; type() as ONNX does.
class Operand {
 public:
  struct Record {
    std::string name;  // empty until it is asked for or given
    ValueFacts facts;
    bool is_weight = false;  // a parameter or buffer, or made from one
  };

  Operand();
  Operand(const Operand&);
  Operand(Operand&&) noexcept;
  Operand& operator=(const Operand&);
  Operand& operator=(Operand&&) noexcept;
  ~Operand();
  explicit Operand(std::shared_ptr<Record> record, bool is_complex = false);
  explicit operator bool() const { return record_ != nullptr; }
  bool operator==(const Operand& other) const { return record_ == other.record_; }

  bool is_complex() const { return is_complex_; }
  // The same value seen as a complex tensor, or as the real tensor of pairs that it is.
  Operand AsComplex() const { return Operand(record_, true); }
  Operand AsPairs() const { return Operand(record_, false); }
  DType dtype() const;  // throws while it is not known
  size_t rank() const;  // throws while it is not known
  bool has_rank() const { return facts().type.has_rank(); }
  SymbolicShape shape() const;                // throws while its rank is not known
  Dim dim(int64_t axis) const;                // negative axes count from the end
  size_t Axis(int64_t axis) const;            // in [0, rank), as PyTorch counts: a scalar has one axis
  std::optional<Shape> static_shape() const;  // when every size is a number
  const Tensor* constant() const { return facts().constant ? &*facts().constant : nullptr; }

  const Type& type() const { return facts().type; }
  const ValueFacts& facts() const;  // throws when the value is absent
  const std::shared_ptr<Record>& record() const { return record_; }

 private:
  std::shared_ptr<Record> record_;
  bool is_complex_ = false;
};

}  // namespace ferry::torch

extern template class std::vector<ferry::torch::Operand>;
