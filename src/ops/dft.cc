#include <optional>

#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/fft.h"
#include "ops/support/scalar.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

struct Attributes {
  explicit Attributes(const Node& node)
      : inverse(node.Int("inverse", 0) != 0), onesided(node.Int("onesided", 0) != 0) {}
  bool inverse, onesided;

  int64_t DefaultLength(int64_t dim) const { return inverse && onesided ? 2 * (dim - 1) : dim; }
  int64_t OutputDim(int64_t length) const { return onesided && !inverse ? length / 2 + 1 : length; }
  int64_t OutputParts() const { return onesided && inverse ? 1 : 2; }
};

size_t SignalAxis(int64_t axis, size_t rank) {
  Require(rank >= 2, "the input needs at least two dimensions: the signal and its real and imaginary parts");
  size_t normalized = NormalizeAxis(axis, rank);
  Require(normalized != rank - 1, "axis ", axis, " is the one of real and imaginary parts");
  return normalized;
}

// The lines of a tensor along one axis: `outer` × `inner` of them, each of `length` complex or real elements.
struct Lines {
  int64_t outer, length, inner, parts;
  int64_t Offset(int64_t line) const { return (line / inner * length * inner + line % inner) * parts; }
  int64_t step() const { return inner * parts; }
};

Lines LinesOf(const Shape& shape, size_t axis) {
  return {shape.CountBetween(0, axis), shape[axis], shape.CountBetween(axis + 1, shape.rank() - 1), shape.back()};
}

template <class T>
class Transform {
 public:
  Transform(const Attributes& attributes, int64_t length, bool real_input)
      : attributes_(attributes),
        real_input_(real_input),
        scale_(attributes.inverse ? T{1} / static_cast<T>(length) : T{1}) {
    if (UsesRealTransform())
      real_.emplace(length);
    else
      complex_.emplace(length);
  }

  void Run(const T* from, const Lines& in, T* to, const Lines& out, std::vector<Complex<T>>& work,
           std::vector<T>& signal) const {
    int64_t length = real_ ? real_->length() : complex_->length();
    int64_t wanted = attributes_.inverse && attributes_.onesided ? length / 2 + 1 : length;
    int64_t given = std::min(in.length, wanted);
    if (UsesRealTransform() && real_input_) {
      signal.assign(static_cast<size_t>(length), 0.0);
      for (int64_t i = 0; i < given; ++i) signal[static_cast<size_t>(i)] = from[i * in.step()];
      real_->Forward(signal, work);
      WriteSpectrum(work, length, to, out);
      return;
    }
    work.assign(static_cast<size_t>(wanted), Complex<T>{});
    for (int64_t i = 0; i < given; ++i) work[static_cast<size_t>(i)] = {from[i * in.step()], from[i * in.step() + 1]};
    if (real_) {
      real_->Backward(work, signal);
      for (int64_t i = 0; i < out.length; ++i) to[i * out.step()] = scale_ * signal[static_cast<size_t>(i)];
      return;
    }
    if (attributes_.inverse)
      complex_->Backward(work);
    else
      complex_->Forward(work);
    for (int64_t i = 0; i < out.length; ++i) Write(work[static_cast<size_t>(i)], to + i * out.step());
  }

 private:
  bool UsesRealTransform() const { return real_input_ || (attributes_.inverse && attributes_.onesided); }

  void Write(Complex<T> value, T* to) const {
    to[0] = scale_ * value.re;
    to[1] = scale_ * value.im;
  }

  // The spectrum of a real signal: the second half mirrors the first; the backward transform is its conjugate.
  void WriteSpectrum(const std::vector<Complex<T>>& bins, int64_t length, T* to, const Lines& out) const {
    for (int64_t k = 0; k < out.length; ++k) {
      bool mirrored = 2 * k > length;
      Complex<T> value = bins[static_cast<size_t>(mirrored ? length - k : k)];
      if (mirrored != attributes_.inverse) value.im = -value.im;
      Write(value, to + k * out.step());
    }
  }

  Attributes attributes_;
  bool real_input_;
  T scale_;
  std::optional<RealFft<T>> real_;
  std::optional<Fft<T>> complex_;
};

void CheckParts(const Attributes& attributes, int64_t parts) {
  Require(parts == 1 || parts == 2, "the last dimension must be 1 (real) or 2 (complex), is ", parts);
  if (!attributes.onesided) return;
  Require(attributes.inverse || parts == 1, "a one-sided transform needs a real input");
  Require(!attributes.inverse || parts == 2, "an inverse one-sided transform needs a complex input");
}

void ComputeDft(OpContext& context) {
  const Tensor& x = context.Input(0);
  Attributes attributes(context.node());
  size_t axis = SignalAxis(context.Has(2) ? ScalarInt(context.Input(2), "axis") : -2, x.rank());
  CheckParts(attributes, x.shape().back());
  int64_t length = context.Has(1) ? ScalarInt(context.Input(1), "dft_length") : attributes.DefaultLength(x.dim(axis));
  Require(length >= 1, "the length of the transform must be at least 1, is ", length);
  Shape shape = x.shape();
  shape[axis] = attributes.OutputDim(length);
  shape.back() = attributes.OutputParts();
  Tensor& y = context.Output(0, x.dtype(), shape);
  if (y.size() == 0) return;
  Tensor from = WidenToFloat(x);
  Tensor to = IsSmallFloat(y.dtype()) ? Tensor(DType::kFloat, shape) : y;
  Lines in = LinesOf(x.shape(), axis), out = LinesOf(shape, axis);
  Dispatch(FloatTypes{}, from.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Transform<T> transform(attributes, length, x.shape().back() == 1);
    const T* source = from.Data<T>();
    T* target = to.MutableData<T>();
    context.ParallelFor(in.outer * in.inner, std::max<int64_t>(1, 4096 / length), [&](int64_t begin, int64_t end) {
      std::vector<Complex<T>> work;
      std::vector<T> signal;
      for (int64_t line = begin; line < end; ++line) {
        context.CheckCancelled();
        transform.Run(source + in.Offset(line), in, target + out.Offset(line), out, work, signal);
      }
    });
  });
  NarrowInto(to, y);
}

void InferDft(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x) return context.SetOutput(0, context.InputDType(0));
  Require(x->size() >= 2, "the input needs at least two dimensions: the signal and its real and imaginary parts");
  Attributes attributes(context.node());
  SymbolicShape shape = *x;
  std::optional<std::vector<int64_t>> axis = std::vector<int64_t>{-2};
  if (context.Has(2)) axis = context.InputInts(2);
  if (!axis || axis->size() != 1) {
    shape.assign(x->size(), Dim());
  } else {
    Dim& dim = shape[SignalAxis(axis->front(), x->size())];
    if (context.Has(1))
      dim = KnownScalar(context, 1);
    else if (dim.known())
      dim = attributes.DefaultLength(*dim.value);
    else if (attributes.inverse && attributes.onesided)
      dim = Dim();
    if (dim.known())
      dim = attributes.OutputDim(*dim.value);
    else if (attributes.onesided && !attributes.inverse)
      dim = Dim();
  }
  shape.back() = attributes.OutputParts();
  context.SetOutput(0, context.InputDType(0), std::move(shape));
}

}  // namespace

FERRY_OPERATOR(DFT, {.compute = ComputeDft, .infer = InferDft});

}  // namespace ferry
