// Random numbers. ONNX draws its own: only their distribution is PyTorch's.
#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

DType Drawn(DType dtype) { return IsFloating(dtype) && dtype != DType::kBFloat16 ? dtype : DType::kFloat; }

// Numbers of a shape that may only be known while the model runs.
Operand Draw(Call& c, const char* op_type, const Operand& shape, DType dtype, double first, double second) {
  bool is_normal = std::string_view(op_type) == "RandomNormal";
  Attributes attributes = {{"dtype", static_cast<int64_t>(Drawn(dtype))},
                           {is_normal ? "mean" : "low", static_cast<float>(first)},
                           {is_normal ? "scale" : "high", static_cast<float>(second)}};
  if (shape.constant()) {
    attributes.push_back({"shape", ToInt64Vector(*shape.constant())});
    return c.b.Cast(c.b.Emit(op_type, {}, attributes), dtype);
  }
  Operand like = c.b.Fill(0, DType::kFloat, shape);
  return c.b.Cast(c.b.Emit(is_normal ? "RandomNormalLike" : "RandomUniformLike", {like}, attributes), dtype);
}

Result Rand(Call& c) { return Draw(c, "RandomUniform", c.b.ShapeVector(c.Numbers(0)), c.Type(1, DType::kFloat), 0, 1); }
Result Randn(Call& c) { return Draw(c, "RandomNormal", c.b.ShapeVector(c.Numbers(0)), c.Type(1, DType::kFloat), 0, 1); }
Result RandLike(Call& c) {
  Operand x = c.Tensor(0);
  return Draw(c, "RandomUniform", c.b.ShapeOf(x), c.Type(1, x.dtype()), 0, 1);
}
Result RandnLike(Call& c) {
  Operand x = c.Tensor(0);
  return Draw(c, "RandomNormal", c.b.ShapeOf(x), c.Type(1, x.dtype()), 0, 1);
}
Result Uniform(Call& c) {
  Operand x = c.Tensor(0);
  return Draw(c, "RandomUniform", c.b.ShapeOf(x), x.dtype(), c.Float(1), c.Float(2));
}
Result Normal(Call& c) {
  Operand x = c.Tensor(0);
  return Draw(c, "RandomNormal", c.b.ShapeOf(x), x.dtype(), c.Float(1), c.Float(2));
}
Result NormalOfSize(Call& c) {
  return Draw(c, "RandomNormal", c.b.ShapeVector(c.Numbers(2)), c.Type(4, DType::kFloat), c.Float(0), c.Float(1));
}
// With a mean or a deviation for each element.
Result NormalAround(Call& c) {
  Operands o = c.Promoted({0, 1});
  Operand shape = c.b.ShapeOf(c.b.Add(o[0], o[1]));
  return c.b.Add(c.b.Mul(Draw(c, "RandomNormal", shape, o[0].dtype(), 0, 1), o[1]), o[0]);
}

// Whole numbers from `low` on, below `high`; rounding must not reach it.
Operand Whole(Call& c, const Operand& shape, DType dtype, int64_t low, int64_t high) {
  if (high <= low) c.Unsupported("there is no whole number from ", low, " on below ", high);
  Operand drawn = Draw(c, "RandomUniform", shape, DType::kDouble, static_cast<double>(low), static_cast<double>(high));
  Operand whole = c.b.Min(c.b.Floor(drawn), c.b.Number(static_cast<double>(high - 1), DType::kDouble));
  return c.b.Cast(whole, dtype);
}
Result RandInt(Call& c) { return Whole(c, c.b.ShapeVector(c.Numbers(1)), c.Type(2, DType::kInt64), 0, c.Int(0)); }
Result RandIntFrom(Call& c) {
  return Whole(c, c.b.ShapeVector(c.Numbers(2)), c.Type(3, DType::kInt64), c.Int(0), c.Int(1));
}
Result RandIntLike(Call& c) {
  Operand x = c.Tensor(0);
  return Whole(c, c.b.ShapeOf(x), c.Type(2, x.dtype()), 0, c.Int(1));
}
Result RandIntLikeFrom(Call& c) {
  Operand x = c.Tensor(0);
  return Whole(c, c.b.ShapeOf(x), c.Type(3, x.dtype()), c.Int(1), c.Int(2));
}

Operand Toss(Call& c, const Operand& chances, DType dtype) {
  if (c.b.Has("Bernoulli") && c.b.Takes("Bernoulli", chances.dtype()))
    return c.b.Emit("Bernoulli", {chances}, {{"dtype", static_cast<int64_t>(dtype)}});
  Operand drawn = Draw(c, "RandomUniform", c.b.ShapeOf(chances), chances.dtype(), 0, 1);
  return c.b.Cast(c.b.Less(drawn, chances), dtype);
}
Result Bernoulli(Call& c) { return Toss(c, c.Tensor(0), c.Tensor(0).dtype()); }
Result BernoulliOf(Call& c) {
  Operand x = c.Tensor(0);
  return Toss(c, c.b.Fill(c.Float(1), DType::kFloat, c.b.ShapeOf(x)), x.dtype());
}
Result BernoulliOfEach(Call& c) {
  Operand x = c.Tensor(0), chances = c.Tensor(1);
  return Toss(c, c.b.Expand(c.b.ToFloat(chances), c.b.ShapeOf(x)), x.dtype());
}

// Places in the order of random keys.
Result RandPerm(Call& c) {
  Operand count = c.b.AsVector(c.Number(0));
  Operand keys = Draw(c, "RandomUniform", count, DType::kFloat, 0, 1);
  Operand order = c.b.EmitMany("TopK", {keys, count}, {{"axis", int64_t{0}}}, 2)[1];
  return c.b.Cast(order, c.Type(1, DType::kInt64));
}

#define FACTORY_ARGS "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)"
#define LIKE_ARGS                                                                             \
  "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, " \
  "MemoryFormat? memory_format=None)"

constexpr Rule kRules[] = {
    {"rand(SymInt[] size, *, " FACTORY_ARGS, Rand},
    {"randn(SymInt[] size, *, " FACTORY_ARGS, Randn},
    {"rand_like(Tensor self, *, " LIKE_ARGS, RandLike},
    {"randn_like(Tensor self, *, " LIKE_ARGS, RandnLike},
    {"randint(SymInt high, SymInt[] size, *, " FACTORY_ARGS, RandInt},
    {"randint.low(SymInt low, SymInt high, SymInt[] size, *, " FACTORY_ARGS, RandIntFrom},
    {"randint_like(Tensor self, SymInt high, *, " LIKE_ARGS, RandIntLike},
    {"randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, " LIKE_ARGS, RandIntLikeFrom},
    {"randperm(SymInt n, *, " FACTORY_ARGS, RandPerm},
    {"uniform(Tensor self, float from=0.0, float to=1.0, *, Generator? generator=None)", Uniform},
    {"normal_(Tensor self, float mean=0.0, float std=1.0, *, Generator? generator=None)", Normal},
    {"normal.Tensor_float(Tensor mean, float std=1.0, *, Generator? generator=None)", NormalAround},
    {"normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None)", NormalAround},
    {"normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None)", NormalAround},
    {"normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, " FACTORY_ARGS,
     NormalOfSize},
    {"normal_functional(Tensor self, float mean=0.0, float std=1.0, *, Generator? generator=None)", Normal},
    {"bernoulli(Tensor self, *, Generator? generator=None)", Bernoulli},
    {"bernoulli.p(Tensor self, float p, *, Generator? generator=None)", BernoulliOf},
    {"bernoulli_.float(Tensor self, float p=0.5, *, Generator? generator=None)", BernoulliOf},
    {"bernoulli_.Tensor(Tensor self, Tensor p, *, Generator? generator=None)", BernoulliOfEach},
};
#undef FACTORY_ARGS
#undef LIKE_ARGS

}  // namespace

std::span<const Rule> RandomRules() { return kRules; }

}  // namespace ferry::torch
