// Fourier transforms. Complex tensors are pairs, as ONNX's DFT has them.
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

// A scale of n^exponent, n being the number of elements that are transformed together.
using Exponent = double;
constexpr Exponent kNone = 0, kRoot = -0.5, kAll = -1;

Exponent ScaleOf(Call& c, size_t argument, bool forward) {
  std::string mode = c.IsNone(argument) ? "backward" : c.Text(argument);
  if (mode == "ortho") return kRoot;
  if (mode != "backward" && mode != "forward") c.Unsupported("the norm '", Printable(mode), "' is not known");
  return (mode == "forward") == forward ? kAll : kNone;
}

struct Axis {
  int64_t axis = 0;
  std::optional<Scalar> size;  // trimmed or filled with zeros to this
};

// A number of elements, as far as it is known, times what is computed while running.
class Count {
 public:
  void Multiply(Builder& b, const Scalar& size) {
    if (size.is_known())
      known_ *= static_cast<double>(size.AsInt());
    else
      computed_ = computed_ ? b.Mul(computed_, b.AsVector(size)) : b.AsVector(size);
  }
  // This to the power of `exponent`; absent when that is 1.
  Operand Power(Builder& b, Exponent exponent, DType dtype) const {
    double known = std::pow(known_, exponent);
    if (exponent == 0 || (!computed_ && known == 1)) return {};
    if (!computed_) return b.Number(known, dtype);
    return b.Mul(b.Pow(b.Cast(computed_, dtype), exponent), known);
  }

 private:
  double known_ = 1;
  Operand computed_;
};

// Counts what is transformed forward and what is transformed back, which ONNX scales by 1/n.
class Transform {
 public:
  explicit Transform(Call& c) : b_(c.b) {}

  // From complex (or real) to complex.
  Operand Complex(Operand x, const std::vector<Axis>& axes, bool forward) {
    for (const Axis& axis : axes) {
      (forward ? forward_ : back_).Multiply(b_, axis.size ? *axis.size : b_.SizeScalar(x, axis.axis));
      x = Dft(x, axis, forward, false);
    }
    return x;
  }
  // From real to the first half of a spectrum that is symmetric.
  Operand HalfSpectrum(const Operand& x, const Axis& axis) {
    forward_.Multiply(b_, axis.size ? *axis.size : b_.SizeScalar(x, axis.axis));
    return Dft(x, axis, true, true);
  }
  // From the first half of a symmetric spectrum to the real signal it belongs to.
  Operand RealSignal(const Operand& x, const Axis& axis) {
    Operand half = x.is_complex() ? x : b_.Cast(x, ComplexType(x.dtype()));
    Scalar size = axis.size ? *axis.size : SignalSize(half, axis.axis);
    back_.Multiply(b_, size);
    return b_.Real(Dft(Mirrored(half, axis.axis, size), {axis.axis, std::nullopt}, false, false));
  }
  // Brings the scale of all that was done to n^wanted.
  Operand Scaled(Operand x, Exponent wanted) {
    DType dtype = RealType(x.dtype());
    for (const Operand& factor : {forward_.Power(b_, wanted, dtype), back_.Power(b_, wanted - kAll, dtype)}) {
      if (!factor) continue;
      Operand scaled = b_.Mul(x.AsPairs(), factor);
      x = x.is_complex() ? scaled.AsComplex() : scaled;
    }
    return x;
  }
  Operand Conjugate(const Operand& x) {
    Operand signs = b_.Cast(b_.Ints({1, -1}), RealType(x.dtype()));
    return b_.Mul(x.AsPairs(), signs).AsComplex();
  }

 private:
  Operand Dft(const Operand& x, const Axis& axis, bool forward, bool half) {
    Operand signal = x.is_complex() ? x.AsPairs() : b_.Unsqueeze(x, {-1});
    Operand length = axis.size ? b_.AsRank0(b_.AsVector(*axis.size)) : Operand();
    Attributes attributes;
    if (!forward) attributes.push_back({"inverse", int64_t{1}});
    if (half) attributes.push_back({"onesided", int64_t{1}});
    return b_.Emit("DFT", {signal, length, b_.Int(axis.axis)}, attributes).AsComplex();
  }

  Scalar SignalSize(const Operand& half, int64_t axis) {
    Dim size = half.dim(axis);
    if (size.known()) return Scalar(CheckedProduct(2, *size.value) - 2);
    Operand computed = b_.Mul(b_.Sub(b_.SizeOf(half, axis), b_.Ints({1})), b_.Ints({2}));
    return Scalar(Scalar::Kind::kInt, computed);
  }

  // What follows the first half: the same elements backwards and conjugated, without the first and the middle one.
  Operand Mirrored(const Operand& half, int64_t axis, const Scalar& size) {
    if (!size.is_known()) {
      Operand back = b_.Emit("Slice", {half.AsPairs(), b_.Ints({-2}), b_.Ints({0}), b_.Ints({axis}), b_.Ints({-1})});
      return b_.Concat({half, Conjugate(back.AsComplex())}, axis);
    }
    int64_t count = size.AsInt(), kept = count / 2 + 1;
    Require(count >= 1, "a signal of ", count, " elements cannot be");
    RequireFewPositions(static_cast<double>(count));
    Operand used = Sized(half, axis, kept);
    std::vector<int64_t> backwards(static_cast<size_t>(count - kept));
    std::iota(backwards.rbegin(), backwards.rend(), 1);
    if (backwards.empty()) return used;
    return b_.Concat({used, Conjugate(b_.Gather(used, b_.Ints(backwards), axis))}, axis);
  }

  Operand Sized(const Operand& x, int64_t axis, int64_t size) {
    Dim own = x.dim(axis);
    if (own.known() && *own.value == size) return x;
    if (own.known() && *own.value > size) return b_.Slice(x, axis, Scalar(0), Scalar(size));
    size_t rank = x.rank() + 1;  // with the pairs
    std::vector<int64_t> pads(2 * rank);
    pads[rank + x.Axis(axis)] = own.known() ? size - *own.value : size;
    Operand padded = b_.Emit("Pad", {x.AsPairs(), b_.Ints(pads)}).AsComplex();
    return own.known() ? padded : b_.Slice(padded, axis, Scalar(0), Scalar(size));
  }

  Builder& b_;
  Count forward_, back_;
};

// --- arguments

Axis OneAxis(Call& c) {
  Operand x = c.Tensor(0);
  Axis axis{static_cast<int64_t>(x.Axis(c.Int(2))), std::nullopt};
  if (!c.IsNone(1)) axis.size = c.Number(1);
  return axis;
}
// s and dim as PyTorch reads them: the last axes when only s is given, all when neither is; a size of -1 changes
// nothing.
std::vector<Axis> Axes(Call& c) {
  Operand x = c.Tensor(0);
  std::vector<Scalar> sizes;
  if (!c.IsNone(1)) sizes = c.Numbers(1);
  std::vector<int64_t> dims = c.Ints(2);
  if (c.IsNone(2)) {
    size_t count = c.IsNone(1) ? x.rank() : sizes.size();
    for (size_t i = x.rank() - count; i < x.rank(); ++i) dims.push_back(static_cast<int64_t>(i));
  }
  std::vector<Axis> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    axes.push_back({static_cast<int64_t>(x.Axis(dims[i])), std::nullopt});
    if (i < sizes.size() && !(sizes[i].is_known() && sizes[i].AsInt() == -1)) axes.back().size = sizes[i];
  }
  return axes;
}
bool IsForward(const Call& c) {
  std::string name = c.op_name();
  return name == "fft_fft" || name == "fft_fft2" || name == "fft_fftn";
}

Operand ComplexToComplex(Call& c, const std::vector<Axis>& axes) {
  bool forward = IsForward(c);
  Transform transform(c);
  Operand x = c.FloatTensor(0);
  if (axes.empty()) return c.b.Cast(x, ComplexType(x.dtype()));
  return transform.Scaled(transform.Complex(x, axes, forward), ScaleOf(c, 3, forward));
}
Operand RealToComplex(Call& c, std::vector<Axis> axes) {
  if (axes.empty()) c.Unsupported("there is no axis to transform");
  Transform transform(c);
  Axis last = axes.back();
  axes.pop_back();
  Operand half = transform.HalfSpectrum(c.FloatTensor(0), last);
  return transform.Scaled(transform.Complex(half, axes, true), ScaleOf(c, 3, true));
}
Operand ComplexToReal(Call& c, std::vector<Axis> axes) {
  if (axes.empty()) c.Unsupported("there is no axis to transform");
  Transform transform(c);
  Axis last = axes.back();
  axes.pop_back();
  Operand x = transform.Complex(c.FloatTensor(0), axes, false);
  return transform.Scaled(transform.RealSignal(x, last), ScaleOf(c, 3, false));
}
// A real spectrum of a symmetric signal: the signal conjugated, transformed the other way, in the scale of this one.
Operand Hermitian(Call& c, std::vector<Axis> axes) {
  if (axes.empty()) c.Unsupported("there is no axis to transform");
  Transform transform(c);
  Axis last = axes.back();
  axes.pop_back();
  Operand x = c.FloatTensor(0);
  if (!x.is_complex()) x = c.b.Cast(x, ComplexType(x.dtype()));
  x = transform.Conjugate(transform.Complex(x, axes, true));
  return transform.Scaled(transform.RealSignal(x, last), ScaleOf(c, 3, true));
}
Operand InverseHermitian(Call& c, std::vector<Axis> axes) {
  if (axes.empty()) c.Unsupported("there is no axis to transform");
  Axis last = axes.back();
  axes.pop_back();
  Exponent wanted = ScaleOf(c, 3, false);
  Transform first(c), rest(c);
  Operand half = first.Conjugate(first.Scaled(first.HalfSpectrum(c.FloatTensor(0), last), wanted));
  return axes.empty() ? half : rest.Scaled(rest.Complex(half, axes, false), wanted);
}

template <Operand (*Lower)(Call&, std::vector<Axis>)>
Result One(Call& c) {
  return Lower(c, {OneAxis(c)});
}
template <Operand (*Lower)(Call&, std::vector<Axis>)>
Result Many(Call& c) {
  return Lower(c, Axes(c));
}
Operand FullSpectrum(Call& c, std::vector<Axis> axes) { return ComplexToComplex(c, axes); }

// --- what the composite forms are made of inside PyTorch: normalization 0 is none, 1 is 1/√n, 2 is 1/n

Exponent ScaleOfNumber(int64_t normalization) { return normalization == 0 ? kNone : normalization == 1 ? kRoot : kAll; }
std::vector<Axis> PlainAxes(Call& c) {
  std::vector<Axis> axes;
  Operand x = c.Tensor(0);
  for (int64_t dim : c.Ints(1)) axes.push_back({static_cast<int64_t>(x.Axis(dim)), std::nullopt});
  return axes;
}
Result FftC2c(Call& c) {
  Transform transform(c);
  return transform.Scaled(transform.Complex(c.Tensor(0), PlainAxes(c), c.Bool(3)), ScaleOfNumber(c.Int(2)));
}
Result FftR2c(Call& c) {
  Transform transform(c);
  std::vector<Axis> axes = PlainAxes(c);
  if (axes.empty()) c.Unsupported("there is no axis to transform");
  Operand x = c.Tensor(0);
  if (c.Bool(3)) {
    x = transform.HalfSpectrum(x, axes.back());
    axes.pop_back();
  }
  return transform.Scaled(transform.Complex(x, axes, true), ScaleOfNumber(c.Int(2)));
}
Result FftC2r(Call& c) {
  Transform transform(c);
  std::vector<Axis> axes = PlainAxes(c);
  if (axes.empty()) c.Unsupported("there is no axis to transform");
  Axis last{axes.back().axis, c.Number(3)};
  axes.pop_back();
  Operand x = transform.Complex(c.Tensor(0), axes, false);
  return transform.Scaled(transform.RealSignal(x, last), ScaleOfNumber(c.Int(2)));
}

// Half of each axis to the other side.
Result Shift(Call& c) {
  Operand x = c.Tensor(0);
  std::vector<int64_t> dims = c.Ints(1);
  if (c.IsNone(1)) {
    dims.resize(x.rank());
    std::iota(dims.begin(), dims.end(), 0);
  }
  bool back = c.op_name() == "fft_ifftshift";
  for (int64_t dim : dims) {
    Dim size = x.dim(dim);
    if (!size.known()) c.Unsupported("the size of the axis is not known");
    int64_t moved = back ? (*size.value + 1) / 2 : *size.value / 2;
    if (moved == 0 || moved == *size.value) continue;
    int64_t border = *size.value - moved;
    x = c.b.Concat({c.b.Slice(x, dim, Scalar(border), Scalar(INT64_MAX)), c.b.Slice(x, dim, Scalar(0), Scalar(border))},
                   dim);
  }
  return x;
}
// 0, 1 … and then, unless only half is asked for, the negative ones; over n·d.
Result Frequencies(Call& c) {
  int64_t n = c.Int(0);
  bool half = c.op_name() == "fft_rfftfreq";
  RequireFewPositions(static_cast<double>(n));
  std::vector<float> values;
  for (int64_t i = 0; i < (half ? n / 2 + 1 : n); ++i) {
    int64_t k = half || i < (n + 1) / 2 ? i : i - n;
    values.push_back(static_cast<float>(static_cast<double>(k) * (1.0 / (static_cast<double>(n) * c.Float(1)))));
  }
  return c.b.Cast(c.b.Constant(Tensor::FromVector<float>(values)), c.Type(2, DType::kFloat));
}

constexpr RuleKind kPlain = RuleKind::kPlain;

constexpr Rule kRules[] = {
    {"fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)", One<FullSpectrum>, kPlain, kComplexToo},
    {"fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)", One<FullSpectrum>, kPlain, kComplexToo},
    {"fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)", One<RealToComplex>},
    {"fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)", One<ComplexToReal>, kPlain, kComplexToo},
    {"fft_hfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)", One<Hermitian>, kPlain, kComplexToo},
    {"fft_ihfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)", One<InverseHermitian>},
    {"fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None)", Many<FullSpectrum>, kPlain,
     kComplexToo},
    {"fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None)", Many<FullSpectrum>, kPlain,
     kComplexToo},
    {"fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None)", Many<RealToComplex>},
    {"fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None)", Many<ComplexToReal>, kPlain,
     kComplexToo},
    {"fft_hfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None)", Many<Hermitian>, kPlain,
     kComplexToo},
    {"fft_ihfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None)", Many<InverseHermitian>},
    {"fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)", Many<FullSpectrum>, kPlain,
     kComplexToo},
    {"fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)", Many<FullSpectrum>, kPlain,
     kComplexToo},
    {"fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)", Many<RealToComplex>},
    {"fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)", Many<ComplexToReal>, kPlain,
     kComplexToo},
    {"fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)", Many<Hermitian>, kPlain,
     kComplexToo},
    {"fft_ihfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)", Many<InverseHermitian>},
    {"_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward)", FftC2c, kPlain, kComplexToo},
    {"_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided)", FftR2c},
    {"_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size)", FftC2r, kPlain, kComplexToo},
    {"fft_fftshift(Tensor self, int[1]? dim=None)", Shift, kPlain, kComplexToo},
    {"fft_ifftshift(Tensor self, int[1]? dim=None)", Shift, kPlain, kComplexToo},
    {"fft_fftfreq(int n, float d=1.0, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None)",
     Frequencies},
    {"fft_rfftfreq(int n, float d=1.0, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None)",
     Frequencies},
};

}  // namespace

std::span<const Rule> FourierRules() { return kRules; }

}  // namespace ferry::torch
