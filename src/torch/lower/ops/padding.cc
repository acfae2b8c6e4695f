// Padding. PyTorch lists pairs of amounts from the last axis backwards.
#include <algorithm>
#include <complex>

#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

bool AllZero(const std::vector<Scalar>& amounts) {
  return std::all_of(amounts.begin(), amounts.end(), [](const Scalar& n) { return n.is_known() && n.AsInt() == 0; });
}

// Before and after, from the last axis on.
void CheckAmounts(const Operand& x, const std::vector<Scalar>& amounts) {
  constexpr int64_t kMost = int64_t{1} << 48;
  Require(amounts.size() % 2 == 0 && amounts.size() <= 2 * x.rank(), amounts.size(), " amounts cannot pad ", x.rank(),
          " axes");
  for (const Scalar& amount : amounts)
    if (amount.is_known() && (amount.AsInt() < -kMost || amount.AsInt() > kMost))
      Fail(ErrorCode::kInvalidModel, "an axis cannot be padded by ", amount.AsInt());
}

// begin of every axis, then end of every axis, as ONNX lists them.
Operand OnnxPads(Call& c, const Operand& x, const std::vector<Scalar>& amounts) {
  CheckAmounts(x, amounts);
  std::vector<Scalar> pads(2 * x.rank(), Scalar(0));
  for (size_t i = 0; i + 1 < amounts.size(); i += 2) {
    size_t axis = x.rank() - 1 - i / 2;
    pads[axis] = amounts[i];
    pads[x.rank() + axis] = amounts[i + 1];
  }
  if (x.is_complex()) {
    pads.insert(pads.begin() + static_cast<ptrdiff_t>(x.rank()), Scalar(0));
    pads.push_back(Scalar(0));
  }
  return c.b.ShapeVector(pads);
}

Operand PadConstant(Call& c, const Operand& x, const std::vector<Scalar>& amounts, const Scalar& value) {
  if (AllZero(amounts)) return x;
  if (x.is_complex() && !(value.is_known() && value.AsComplex() == 0.0)) {
    std::complex<double> filling = value.AsComplex();
    return c.b.MakeComplex(PadConstant(c, c.b.Real(x), amounts, Scalar(filling.real())),
                           PadConstant(c, c.b.Imaginary(x), amounts, Scalar(filling.imag())));
  }
  Operand number = c.b.Of(value, x.is_complex() ? x.AsPairs().dtype() : x.dtype());
  Operand pairs = x.AsPairs();
  if (!c.b.Takes("Pad", pairs.dtype())) {
    // Old opsets pad floats only; double holds every integer that a tensor of 32 bits can.
    Operand padded =
        c.b.Emit("Pad", {c.b.Cast(pairs, DType::kDouble), OnnxPads(c, x, amounts), c.b.Cast(number, DType::kDouble)});
    return c.b.Cast(padded, pairs.dtype());
  }
  Operand padded = c.b.Emit("Pad", {pairs, OnnxPads(c, x, amounts), number});
  return x.is_complex() ? padded.AsComplex() : padded;
}

Operand PadMode(Call& c, const Operand& x, const std::vector<Scalar>& amounts, const std::string& mode) {
  if (AllZero(amounts)) return x;
  Operand padded = c.b.Emit("Pad", {x.AsPairs(), OnnxPads(c, x, amounts)}, {{"mode", mode}});
  return x.is_complex() ? padded.AsComplex() : padded;
}

// Where one side is cut, places beyond an end take what is at that end of the whole axis, even if it was cut off.
Operand PadReplicate(Call& c, Operand x, std::vector<Scalar> amounts) {
  for (size_t i = 0; i + 1 < amounts.size() && i / 2 < x.rank(); i += 2) {
    const int64_t axis = static_cast<int64_t>(x.rank()) - 1 - static_cast<int64_t>(i / 2);
    const Dim size = x.dim(axis);
    if (!amounts[i].is_known() || !amounts[i + 1].is_known() || !size.known() || *size.value == 0) continue;
    const int64_t before = amounts[i].AsInt(), after = amounts[i + 1].AsInt();
    if (std::min(before, after) >= 0 || std::max(before, after) <= 0) continue;
    CheckAmounts(x, amounts);
    const int64_t count = *size.value + before + after;
    Require(count >= 0, "an axis of ", *size.value, " cannot be padded by ", before, " and ", after);
    RequireFewPositions(static_cast<double>(count));
    std::vector<int64_t> places(static_cast<size_t>(count));
    for (int64_t j = 0; j < count; ++j)
      places[static_cast<size_t>(j)] = std::clamp<int64_t>(j - before, 0, *size.value - 1);
    x = c.b.Gather(x, c.b.Ints(places), axis);
    amounts[i] = amounts[i + 1] = Scalar(0);
  }
  return PadMode(c, x, amounts, "edge");
}

// Negative amounts cut; then the end comes before the beginning and the other way round.
Operand PadCircular(Call& c, Operand x, const std::vector<Scalar>& amounts) {
  CheckAmounts(x, amounts);
  for (size_t i = 0; i + 1 < amounts.size(); i += 2) {
    int64_t axis = static_cast<int64_t>(x.rank()) - 1 - static_cast<int64_t>(i / 2);
    int64_t before = amounts[i].AsInt(), after = amounts[i + 1].AsInt();
    x = c.b.Slice(x, axis, Scalar(std::max<int64_t>(-before, 0)), after < 0 ? Scalar(after) : Scalar(INT64_MAX));
    Operands parts;
    if (before > 0) parts.push_back(c.b.Slice(x, axis, Scalar(-before), Scalar(INT64_MAX)));
    parts.push_back(x);
    if (after > 0) parts.push_back(c.b.Slice(x, axis, Scalar(0), Scalar(after)));
    x = c.b.Concat(parts, axis);
  }
  return x;
}

Result Pad(Call& c) {
  Operand x = c.Tensor(0);
  std::string mode = c.Text(2);
  if (mode == "constant") return PadConstant(c, x, c.Numbers(1), c.IsNone(3) ? Scalar(0) : c.Number(3));
  if (mode == "reflect") return PadMode(c, x, c.Numbers(1), "reflect");
  if (mode == "replicate") return PadReplicate(c, x, c.Numbers(1));
  if (mode == "circular") return PadCircular(c, x, c.Numbers(1));
  c.Unsupported("the padding mode '", mode, "' is unknown");
}
Result ConstantPad(Call& c) { return PadConstant(c, c.Tensor(0), c.Numbers(1), c.Number(2)); }
Result ReflectionPad(Call& c) { return PadMode(c, c.Tensor(0), c.Numbers(1), "reflect"); }
Result ReplicationPad(Call& c) { return PadReplicate(c, c.Tensor(0), c.Numbers(1)); }
Result CircularPad(Call& c) { return PadCircular(c, c.Tensor(0), c.Numbers(1)); }
// 0 constant, 1 reflect, 2 replicate, 3 circular
Result PadEnum(Call& c) {
  Operand x = c.Tensor(0);
  switch (c.Int(2)) {
    case 0: return PadConstant(c, x, c.Numbers(1), c.IsNone(3) ? Scalar(0) : c.Number(3));
    case 1: return PadMode(c, x, c.Numbers(1), "reflect");
    case 2: return PadReplicate(c, x, c.Numbers(1));
    case 3: return PadCircular(c, x, c.Numbers(1));
    default: c.Unsupported("the padding mode ", c.Int(2), " is unknown");
  }
}

constexpr RuleKind kPlain = RuleKind::kPlain;

constexpr Rule kRules[] = {
    {"pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None)", Pad, kPlain, kComplexToo},
    {"constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0)", ConstantPad, kPlain, kComplexToo},
    {"reflection_pad1d(Tensor self, SymInt[2] padding)", ReflectionPad, kPlain, kComplexToo},
    {"reflection_pad2d(Tensor self, SymInt[4] padding)", ReflectionPad, kPlain, kComplexToo},
    {"reflection_pad3d(Tensor self, SymInt[6] padding)", ReflectionPad, kPlain, kComplexToo},
    {"replication_pad1d(Tensor self, SymInt[2] padding)", ReplicationPad, kPlain, kComplexToo},
    {"replication_pad2d(Tensor self, SymInt[4] padding)", ReplicationPad, kPlain, kComplexToo},
    {"replication_pad3d(Tensor self, SymInt[6] padding)", ReplicationPad, kPlain, kComplexToo},
    {"_pad_circular(Tensor self, SymInt[] pad)", CircularPad, kPlain, kComplexToo},
    {"_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None)", PadEnum, kPlain, kComplexToo},
};

}  // namespace

std::span<const Rule> PaddingRules() { return kRules; }

}  // namespace ferry::torch
