// The words that lowering rules are written in: ONNX operators as functions, with the small simplifications that keep
// exported graphs lean (no Cast to the same type, no Transpose that moves nothing …).
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>

#include "torch/lower/emitter.h"
#include "torch/lower/scalar.h"

namespace ferry::torch {

class Builder : public Emitter {
 public:
  using Emitter::Emitter;

  // --- constants
  Operand Ints(const std::vector<int64_t>& values) { return Constant(Tensor::FromVector<int64_t>(values)); }
  Operand Int(int64_t value) { return Constant(Tensor::Scalar<int64_t>(value)); }
  Operand Number(double value, DType dtype);  // a scalar of any real type; throws when an integer cannot hold it
  Operand NumberLike(double value, const Operand& like) { return Number(value, like.dtype()); }
  Operand Of(const Scalar& scalar, DType dtype);  // also one that is computed while running

  // --- arithmetic; operands have one type and broadcast
  Operand Add(const Operand& a, const Operand& b) { return Widened("Add", {a, b}); }
  Operand Sub(const Operand& a, const Operand& b) { return Widened("Sub", {a, b}); }
  Operand Mul(const Operand& a, const Operand& b) { return Widened("Mul", {a, b}); }
  Operand Div(const Operand& a, const Operand& b) { return Widened("Div", {a, b}); }
  Operand Pow(const Operand& a, const Operand& b) { return Widened("Pow", {a, b}); }
  Operand Min(const Operand& a, const Operand& b) { return Widened("Min", {a, b}); }
  Operand Max(const Operand& a, const Operand& b) { return Widened("Max", {a, b}); }
  // Emits an operator whose result has its inputs' type; where the opset does not take that type, in a wider one.
  Operand Widened(std::string_view op_type, const Operands& inputs, const Attributes& attributes = {});
  // With a number of the operand's type on one side.
  Operand Add(const Operand& a, double b) { return Add(a, NumberLike(b, a)); }
  Operand Sub(const Operand& a, double b) { return Sub(a, NumberLike(b, a)); }
  Operand Sub(double a, const Operand& b) { return Sub(NumberLike(a, b), b); }
  Operand Mul(const Operand& a, double b) { return Mul(a, NumberLike(b, a)); }
  Operand Div(const Operand& a, double b) { return Div(a, NumberLike(b, a)); }
  Operand Div(double a, const Operand& b) { return Div(NumberLike(a, b), b); }
  Operand Pow(const Operand& a, double b) { return Pow(a, NumberLike(b, a)); }
  Operand Neg(const Operand& x) { return Widened("Neg", {x}); }
  Operand Abs(const Operand& x) { return Widened("Abs", {x}); }
  Operand Sqrt(const Operand& x) { return Widened("Sqrt", {x}); }
  Operand Exp(const Operand& x) { return Widened("Exp", {x}); }
  Operand Log(const Operand& x) { return Widened("Log", {x}); }
  Operand Floor(const Operand& x) { return Widened("Floor", {x}); }
  Operand Reciprocal(const Operand& x) { return Widened("Reciprocal", {x}); }
  Operand FloorDivide(const Operand& a, const Operand& b);  // toward minus infinity, integers too
  Operand Square(const Operand& x) { return Mul(x, x); }

  // --- truth
  Operand Equal(const Operand& a, const Operand& b);
  Operand Less(const Operand& a, const Operand& b);
  Operand Greater(const Operand& a, const Operand& b) { return Less(b, a); }
  Operand LessOrEqual(const Operand& a, const Operand& b);
  Operand GreaterOrEqual(const Operand& a, const Operand& b) { return LessOrEqual(b, a); }
  Operand Equal(const Operand& a, double b) { return Equal(a, NumberLike(b, a)); }
  Operand Less(const Operand& a, double b) { return Less(a, NumberLike(b, a)); }
  Operand Greater(const Operand& a, double b) { return Greater(a, NumberLike(b, a)); }
  Operand LessOrEqual(const Operand& a, double b) { return LessOrEqual(a, NumberLike(b, a)); }
  Operand GreaterOrEqual(const Operand& a, double b) { return GreaterOrEqual(a, NumberLike(b, a)); }
  Operand Not(const Operand& x) { return Emit("Not", {x}); }
  Operand And(const Operand& a, const Operand& b) { return Emit("And", {a, b}); }
  Operand Or(const Operand& a, const Operand& b) { return Emit("Or", {a, b}); }
  Operand Xor(const Operand& a, const Operand& b) { return Emit("Xor", {a, b}); }
  Operand Where(const Operand& condition, const Operand& yes, const Operand& no);
  Operand IsNaN(const Operand& x);

  // --- types
  Operand Cast(const Operand& x, DType dtype);  // as PyTorch's .to(): to bool is "not zero"
  Operand CastLike(const Operand& x, const Operand& like) { return Cast(x, like.dtype()); }
  Operand ToFloat(const Operand& x) {
    return Cast(x, IsFloating(x.dtype()) || x.is_complex() ? x.dtype() : DType::kFloat);
  }

  // --- shapes
  // A size as a one-element int64 vector; a constant when it is known.
  Operand SizeOf(const Operand& x, int64_t axis);
  Scalar SizeScalar(const Operand& x, int64_t axis);
  Operand ShapeOf(const Operand& x);                      // all sizes
  Operand CountOf(const Operand& x);                      // how many elements, an int64 scalar
  Operand ShapeVector(const std::vector<Scalar>& sizes);  // an int64 vector, constant when all sizes are
  Operand AsVector(const Scalar& size);                   // one element
  Operand AsRank0(const Operand& one_element);

  Operand Reshape(const Operand& x, const std::vector<int64_t>& shape);  // -1: what is left; 0 means 0
  Operand Reshape(const Operand& x, const Operand& shape);
  // A view as PyTorch asks for it: sizes may be computed, one of them -1. Kept constant wherever that can be.
  Operand View(const Operand& x, const std::vector<Scalar>& sizes);
  std::vector<Scalar> Sizes(const Operand& x);
  Operand Transpose(const Operand& x, const std::vector<int64_t>& order);
  Operand SwapAxes(const Operand& x, int64_t a, int64_t b);
  Operand MoveAxis(const Operand& x, int64_t from, int64_t to);
  Operand Unsqueeze(const Operand& x, std::vector<int64_t> axes);  // axes of the result
  Operand Squeeze(const Operand& x, std::vector<int64_t> axes);
  Operand Expand(const Operand& x, const Operand& shape);
  Operand ExpandLike(const Operand& x, const Operand& like);
  Operand Slice(const Operand& x, int64_t axis, const Scalar& begin, const Scalar& end, int64_t step = 1);
  Operand Concat(const Operands& parts, int64_t axis);
  Operand Gather(const Operand& x, const Operand& indices, int64_t axis);
  Operand Select(const Operand& x, int64_t axis, int64_t index);  // one index, the axis goes
  Operand Fill(double value, DType dtype, const Operand& shape);  // a tensor full of one number
  Operand Range(const Operand& begin, const Operand& end, const Operand& step) {
    return Emit("Range", {begin, end, step});
  }
  Operand Iota(const Operand& x, int64_t axis);  // 0, 1 … along one axis: int64[size]

  // --- reductions; no axes means all
  Operand Reduce(std::string_view op_type, const Operand& x, const std::vector<int64_t>& axes, bool keep_dims);
  Operand MatMul(const Operand& a, const Operand& b) { return Emit("MatMul", {a, b}); }

  // A matrix of weights the other way around: computed now, under the same name, unless weights are not to be folded.
  Operand TransposedWeight(const Operand& weight);
  // The new value of `base` after `written` is put where `view` looks: found by looking at positions through it.
  Operand WriteThrough(const Operand& base, const Operand& written, const std::function<Operand(const Operand&)>& view);

  // --- complex numbers as pairs
  Operand Real(const Operand& complex);
  Operand Imaginary(const Operand& complex);
  Operand MakeComplex(const Operand& real, const Operand& imaginary);

 private:
  std::map<const Operand::Record*, Operand> transposed_weights_;
  Operand ViewOfNothing(const Operand& x, std::vector<int64_t> target);
};

}  // namespace ferry::torch
