#include "torch/lower/operand.h"

#include "base/error.h"

template class std::vector<ferry::torch::Operand>;

namespace ferry::torch {

Operand::Operand() = default;
Operand::Operand(const Operand&) = default;
Operand::Operand(Operand&&) noexcept = default;
Operand& Operand::operator=(const Operand&) = default;
Operand& Operand::operator=(Operand&&) noexcept = default;
Operand::~Operand() = default;
Operand::Operand(std::shared_ptr<Record> record, bool is_complex)
    : record_(std::move(record)), is_complex_(is_complex) {}

const ValueFacts& Operand::facts() const {
  if (!record_) Fail(ErrorCode::kUnsupported, "a value is None where the export needs a tensor");
  return record_->facts;
}

DType Operand::dtype() const {
  DType dtype = type().dtype;
  if (dtype == DType::kUndefined) Fail(ErrorCode::kUnsupported, "the element type of a value is not known");
  if (is_complex()) return dtype == DType::kDouble ? DType::kComplex128 : DType::kComplex64;
  return dtype;
}

SymbolicShape Operand::shape() const {
  if (!has_rank()) Fail(ErrorCode::kUnsupported, "the number of dimensions of a value is not known");
  SymbolicShape shape = *type().shape;
  if (is_complex()) shape.pop_back();
  return shape;
}

size_t Operand::rank() const {
  if (!has_rank()) Fail(ErrorCode::kUnsupported, "the number of dimensions of a value is not known");
  return type().shape->size() - (is_complex() ? 1 : 0);
}

size_t Operand::Axis(int64_t axis) const { return NormalizeAxis(axis, rank() == 0 ? 1 : rank()); }

Dim Operand::dim(int64_t axis) const {
  size_t at = Axis(axis);
  return at < rank() ? (*type().shape)[at] : Dim(1);
}

std::optional<Shape> Operand::static_shape() const { return has_rank() ? ToConcrete(shape()) : std::nullopt; }

}  // namespace ferry::torch
