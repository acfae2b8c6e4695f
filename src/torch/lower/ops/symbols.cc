// Sizes and the arithmetic on them: Python integers that are only known while the model runs.
#include <cmath>

#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

using Kind = Scalar::Kind;

Result SymSize(Call& c) { return c.b.SizeScalar(c.Tensor(0), c.Int(1)); }

Result SymNumel(Call& c) {
  Operand x = c.Tensor(0);
  Dim count = CountElements(x.shape());
  if (count.known()) return Scalar(*count.value);
  return Scalar(Kind::kInt, c.b.Unsqueeze(c.b.CountOf(x), {0}), count);
}

Result SymStorageOffset(Call& c) {
  Dim offset = c.LayoutOf(0).storage_offset;
  if (!offset.known()) c.Unsupported("the offset of a tensor in its storage is not a constant");
  return Scalar(*offset.value);
}

Operand AsVectorOf(Call& c, const Scalar& scalar, DType dtype) { return c.b.Unsqueeze(c.b.Of(scalar, dtype), {0}); }

bool BothIntegral(const Scalar& a, const Scalar& b) { return a.is_integral() && b.is_integral(); }

// A binary operator on two numbers: at once when both are known, else as ONNX nodes on one-element vectors.
template <class Known, class Emitted>
Result Binary(Call& c, const Known& known, const Emitted& emitted) {
  Scalar a = c.Number(0), b = c.Number(1);
  if (a.is_known() && b.is_known()) return known(a, b);
  DType dtype = BothIntegral(a, b) ? DType::kInt64 : DType::kDouble;
  Operand result = emitted(AsVectorOf(c, a, dtype), AsVectorOf(c, b, dtype));
  Kind kind = result.dtype() == DType::kBool    ? Kind::kBool
              : result.dtype() == DType::kInt64 ? Kind::kInt
                                                : Kind::kFloat;
  return Scalar(kind, result);
}

template <class Ints, class Floats>
Scalar Compute(const Scalar& a, const Scalar& b, const Ints& ints, const Floats& floats) {
  if (!BothIntegral(a, b)) return Scalar(floats(a.AsDouble(), b.AsDouble()));
  int64_t result;
  if (ints(a.AsInt(), b.AsInt(), &result)) Fail(ErrorCode::kUnsupported, "a size is too large for 64 bits");
  return Scalar(result);
}

Result SymAdd(Call& c) {
  return Binary(
      c,
      [](const Scalar& a, const Scalar& b) {
        return Compute(
            a, b, [](int64_t x, int64_t y, int64_t* z) { return __builtin_add_overflow(x, y, z); },
            [](double x, double y) { return x + y; });
      },
      [&](const Operand& a, const Operand& b) { return c.b.Add(a, b); });
}
Result SymSub(Call& c) {
  return Binary(
      c,
      [](const Scalar& a, const Scalar& b) {
        return Compute(
            a, b, [](int64_t x, int64_t y, int64_t* z) { return __builtin_sub_overflow(x, y, z); },
            [](double x, double y) { return x - y; });
      },
      [&](const Operand& a, const Operand& b) { return c.b.Sub(a, b); });
}
Result SymMul(Call& c) {
  return Binary(
      c,
      [](const Scalar& a, const Scalar& b) {
        return Compute(
            a, b, [](int64_t x, int64_t y, int64_t* z) { return __builtin_mul_overflow(x, y, z); },
            [](double x, double y) { return x * y; });
      },
      [&](const Operand& a, const Operand& b) { return c.b.Mul(a, b); });
}

int64_t FloorDivideInts(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) Fail(ErrorCode::kInvalidModel, "the program divides ", a, " by ", b);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

Result SymFloorDiv(Call& c) {
  return Binary(
      c,
      [](const Scalar& a, const Scalar& b) {
        if (BothIntegral(a, b)) return Scalar(FloorDivideInts(a.AsInt(), b.AsInt()));
        return Scalar(std::floor(a.AsDouble() / b.AsDouble()));
      },
      [&](const Operand& a, const Operand& b) {
        return a.dtype() == DType::kInt64 ? c.b.FloorDivide(a, b) : c.b.Floor(c.b.Div(a, b));
      });
}
Result SymMod(Call& c) {
  return Binary(
      c,
      [](const Scalar& a, const Scalar& b) {
        int64_t quotient = FloorDivideInts(a.AsInt(), b.AsInt());
        return Scalar(a.AsInt() - quotient * b.AsInt());
      },
      [&](const Operand& a, const Operand& b) {
        return c.b.Emit("Mod", {a, b});
      });
}
Result SymTrueDiv(Call& c) {
  Scalar a = c.Number(0), b = c.Number(1);
  if (a.is_known() && b.is_known()) return Scalar(a.AsDouble() / b.AsDouble());
  return Scalar(Kind::kFloat, c.b.Div(AsVectorOf(c, a, DType::kDouble), AsVectorOf(c, b, DType::kDouble)));
}
Result SymPow(Call& c) {
  return Binary(
      c,
      [](const Scalar& a, const Scalar& b) {
        double power = std::pow(a.AsDouble(), b.AsDouble());
        bool integral = BothIntegral(a, b) && b.AsInt() >= 0 && std::abs(power) < 0x1p53;
        return integral ? Scalar(static_cast<int64_t>(power)) : Scalar(power);
      },
      [&](const Operand& a, const Operand& b) { return c.b.Pow(a, b); });
}
Result SymMin(Call& c) {
  return Binary(
      c, [](const Scalar& a, const Scalar& b) { return a.AsDouble() <= b.AsDouble() ? a : b; },
      [&](const Operand& a, const Operand& b) { return c.b.Min(a, b); });
}
Result SymMax(Call& c) {
  return Binary(
      c, [](const Scalar& a, const Scalar& b) { return a.AsDouble() >= b.AsDouble() ? a : b; },
      [&](const Operand& a, const Operand& b) { return c.b.Max(a, b); });
}

#define FERRY_SYM_COMPARISON(NAME, OPERATOR, EMITTED)                                                         \
  Result NAME(Call& c) {                                                                                      \
    return Binary(                                                                                            \
        c, [](const Scalar& a, const Scalar& b) { return Scalar(bool(a.AsDouble() OPERATOR b.AsDouble())); }, \
        [&](const Operand& a, const Operand& b) { return EMITTED; });                                         \
  }
FERRY_SYM_COMPARISON(SymEq, ==, c.b.Equal(a, b))
FERRY_SYM_COMPARISON(SymNe, !=, c.b.Not(c.b.Equal(a, b)))
FERRY_SYM_COMPARISON(SymLt, <, c.b.Less(a, b))
FERRY_SYM_COMPARISON(SymLe, <=, c.b.LessOrEqual(a, b))
FERRY_SYM_COMPARISON(SymGt, >, c.b.Greater(a, b))
FERRY_SYM_COMPARISON(SymGe, >=, c.b.GreaterOrEqual(a, b))
#undef FERRY_SYM_COMPARISON

Result SymNeg(Call& c) {
  Scalar a = c.Number(0);
  if (a.is_known()) return a.is_integral() ? Scalar(-a.AsInt()) : Scalar(-a.AsDouble());
  return Scalar(a.kind(), c.b.Neg(a.computed()));
}
Result SymNot(Call& c) {
  Scalar a = c.Number(0);
  if (a.is_known()) return Scalar(!a.AsBool());
  return Scalar(Kind::kBool, c.b.Not(c.b.Cast(a.computed(), DType::kBool)));
}
Result SymFloat(Call& c) {
  Scalar a = c.Number(0);
  if (a.is_known()) return Scalar(a.AsDouble());
  return Scalar(Kind::kFloat, c.b.Cast(a.computed(), DType::kDouble));
}
// int(x): toward zero.
Result SymInt(Call& c) {
  Scalar a = c.Number(0);
  if (a.is_known()) return a.is_integral() ? a : Scalar(static_cast<int64_t>(std::trunc(a.AsDouble())));
  return Scalar(Kind::kInt, c.b.Cast(a.computed(), DType::kInt64), a.AsDim());
}
template <const char* kOnnx>
Result Rounded(Call& c) {
  Scalar a = c.Number(0);
  if (a.is_integral()) return a;
  bool up = kOnnx[0] == 'C';
  if (a.is_known()) return Scalar(static_cast<int64_t>(up ? std::ceil(a.AsDouble()) : std::floor(a.AsDouble())));
  return Scalar(Kind::kInt, c.b.Cast(c.b.Emit(kOnnx, {a.computed()}), DType::kInt64));
}
constexpr char kCeil[] = "Ceil", kFloor[] = "Floor";

Result SymSum(Call& c) {
  Operands parts;
  int64_t known = 0;
  for (const Scalar& number : c.Numbers(0)) {
    if (number.is_known())
      known += number.AsInt();
    else
      parts.push_back(c.b.AsVector(number));
  }
  if (parts.empty()) return Scalar(known);
  Operand sum = c.b.Ints({known});
  for (const Operand& part : parts) sum = c.b.Add(sum, part);
  return Scalar(Kind::kInt, sum);
}

// An element read out of a tensor of one element.
Result Item(Call& c) {
  Operand x = c.Tensor(0);
  Kind kind = x.dtype() == DType::kBool ? Kind::kBool : IsInteger(x.dtype()) ? Kind::kInt : Kind::kFloat;
  Operand one = c.b.Reshape(x, {1});
  return Scalar(kind, kind == Kind::kInt ? c.b.Cast(one, DType::kInt64) : one);
}

// Assertions have no counterpart in ONNX: a model that violates them computes on, as PyTorch does with python -O.
Result Nothing(Call&) { return {}; }

constexpr Rule kRules[] = {
    {"sym_size.int(Tensor self, int dim)", SymSize, RuleKind::kPlain, kComplexToo},
    {"size.int(Tensor self, int dim)", SymSize, RuleKind::kPlain, kComplexToo},
    {"sym_numel(Tensor self)", SymNumel, RuleKind::kPlain, kComplexToo},
    {"numel(Tensor self)", SymNumel, RuleKind::kPlain, kComplexToo},
    {"sym_storage_offset(Tensor self)", SymStorageOffset, RuleKind::kPlain, kComplexToo},
    {"_operator.add(Scalar a, Scalar b)", SymAdd},
    {"_operator.sub(Scalar a, Scalar b)", SymSub},
    {"_operator.mul(Scalar a, Scalar b)", SymMul},
    {"_operator.floordiv(Scalar a, Scalar b)", SymFloorDiv},
    {"_operator.mod(Scalar a, Scalar b)", SymMod},
    {"_operator.truediv(Scalar a, Scalar b)", SymTrueDiv},
    {"_operator.pow(Scalar a, Scalar b)", SymPow},
    {"_operator.neg(Scalar a)", SymNeg},
    {"_operator.not_(Scalar a)", SymNot},
    {"_operator.eq(Scalar a, Scalar b)", SymEq},
    {"_operator.ne(Scalar a, Scalar b)", SymNe},
    {"_operator.lt(Scalar a, Scalar b)", SymLt},
    {"_operator.le(Scalar a, Scalar b)", SymLe},
    {"_operator.gt(Scalar a, Scalar b)", SymGt},
    {"_operator.ge(Scalar a, Scalar b)", SymGe},
    {"torch.sym_min(Scalar a, Scalar b)", SymMin},
    {"torch.sym_max(Scalar a, Scalar b)", SymMax},
    {"torch.sym_not(Scalar a)", SymNot},
    {"torch.sym_float(Scalar a)", SymFloat},
    {"torch.sym_int(Scalar a)", SymInt},
    {"torch.sym_sum(Scalar[] args)", SymSum},
    {"math.trunc(Scalar a)", SymInt},
    {"math.ceil(Scalar a)", Rounded<kCeil>},
    {"math.floor(Scalar a)", Rounded<kFloor>},
    {"item(Tensor self)", Item},
    {"_local_scalar_dense(Tensor self)", Item},
    {"_assert_scalar(Scalar self, str assert_msg)", Nothing},
    {"_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, "
     "Device? device=None, Layout? layout=None)",
     Nothing, RuleKind::kPlain, kComplexToo},
    {"_assert_async.default,msg(Tensor self, str assert_msg=None)", Nothing},
    {"sym_constrain_range(Scalar size, *, int? min=None, int? max=None)", Nothing},
    {"sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None)", Nothing},
};

}  // namespace

std::span<const Rule> SymbolRules() { return kRules; }

}  // namespace ferry::torch
