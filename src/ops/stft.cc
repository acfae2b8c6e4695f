#include <optional>

#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/fft.h"
#include "ops/support/scalar.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

struct Frames {
  int64_t length, step, count;
};

Frames PlanFrames(const OpContext& context, int64_t signal_length) {
  const Tensor* window = context.OptionalInput(2);
  if (window) Require(window->rank() == 1, "the window must have one dimension, is of shape ", window->shape());
  int64_t length = context.Has(3) ? ScalarInt(context.Input(3), "frame_length")
                   : window       ? window->size()
                                  : signal_length;
  int64_t step = ScalarInt(context.Input(1), "frame_step");
  Require(step >= 1, "frame_step must be at least 1, is ", step);
  Require(length >= 1, "frame_length must be at least 1, is ", length);
  Require(!window || window->size() == length, "the window has ", window ? window->size() : 0, " values, a frame has ",
          length);
  Require(length <= signal_length, "a frame of ", length, " samples is longer than the signal, which has ",
          signal_length);
  return {length, step, (signal_length - length) / step + 1};
}

// Frame by frame: the signal under the window, transformed; only the first `bins` frequencies are written.
template <class T>
void TransformFrames(const OpContext& context, const Tensor& signal, const Tensor* window, const Frames& frames,
                     int64_t bins, Tensor& out) {
  bool real = signal.dim(2) == 1;
  std::optional<RealFft<T>> real_fft;
  std::optional<Fft<T>> complex_fft;
  if (real)
    real_fft.emplace(frames.length);
  else
    complex_fft.emplace(frames.length);
  const T* samples = signal.Data<T>();
  const T* weights = window ? window->Data<T>() : nullptr;
  T* to = out.MutableData<T>();
  int64_t parts = signal.dim(2), grain = std::max<int64_t>(1, 4096 / frames.length);
  context.ParallelFor(signal.dim(0) * frames.count, grain, [&](int64_t begin, int64_t end) {
    std::vector<Complex<T>> work(static_cast<size_t>(frames.length));
    std::vector<T> real_frame(real ? work.size() : 0);
    for (int64_t f = begin; f < end; ++f) {
      context.CheckCancelled();
      const T* frame = samples + (f / frames.count * signal.dim(1) + f % frames.count * frames.step) * parts;
      work.resize(static_cast<size_t>(frames.length));
      for (int64_t i = 0; i < frames.length; ++i) {
        T weight = weights ? weights[i] : T{1};
        if (real)
          real_frame[static_cast<size_t>(i)] = weight * frame[i];
        else
          work[static_cast<size_t>(i)] = {weight * frame[2 * i], weight * frame[2 * i + 1]};
      }
      if (real)
        real_fft->Forward(real_frame, work);
      else
        complex_fft->Forward(work);
      for (int64_t k = 0; k < bins; ++k) {
        bool mirrored = real && 2 * k > frames.length;
        Complex<T> value = work[static_cast<size_t>(mirrored ? frames.length - k : k)];
        T* pair = to + (f * bins + k) * 2;
        pair[0] = value.re;
        pair[1] = mirrored ? -value.im : value.im;
      }
    }
  });
}

void ComputeStft(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.rank() == 3 && (x.dim(2) == 1 || x.dim(2) == 2),
          "the signal must be of shape [batch, length, 1] or [batch, length, 2], is ", x.shape());
  bool onesided = context.node().Int("onesided", 1) != 0;
  Require(!onesided || x.dim(2) == 1, "a complex signal has no one-sided spectrum; set onesided to 0");
  Frames frames = PlanFrames(context, x.dim(1));
  int64_t bins = onesided ? frames.length / 2 + 1 : frames.length;
  Tensor& y = context.Output(0, x.dtype(), {x.dim(0), frames.count, bins, 2});
  if (y.size() == 0) return;
  Tensor signal = WidenToFloat(x), window;
  if (context.Has(2)) {
    Require(context.Input(2).dtype() == x.dtype(), "the window is of type ", context.Input(2).dtype(),
            ", the signal of type ", x.dtype());
    window = WidenToFloat(context.Input(2));
  }
  Tensor out = IsSmallFloat(y.dtype()) ? Tensor(DType::kFloat, y.shape()) : y;
  Dispatch(FloatTypes{}, signal.dtype(), [&](auto tag) {
    TransformFrames<typename decltype(tag)::type>(context, signal, window.defined() ? &window : nullptr, frames, bins,
                                                  out);
  });
  NarrowInto(out, y);
}

void InferStft(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  Dim batch = x && x->size() == 3 ? x->at(0) : Dim(), signal = x && x->size() == 3 ? x->at(1) : Dim();
  Dim length = signal;
  const SymbolicShape* window = context.InputShape(2);
  if (context.Has(3)) {
    length = KnownScalar(context, 3);
    if (!length.known() && window && window->size() == 1) length = window->front();
  } else if (context.Has(2)) {
    length = window && window->size() == 1 ? window->front() : Dim();
  }
  Dim step = KnownScalar(context, 1);
  Dim count, bins = length;
  if (step.known() && *step.value >= 1 && signal.known() && length.known() && *length.value <= *signal.value)
    count = (*signal.value - *length.value) / *step.value + 1;
  else if (SameDim(signal, length))
    count = 1;
  if (context.node().Int("onesided", 1) != 0) bins = length.known() ? Dim(*length.value / 2 + 1) : Dim();
  context.SetOutput(0, context.InputDType(0), {batch, count, bins, 2});
}

}  // namespace

FERRY_OPERATOR(STFT, {.compute = ComputeStft, .infer = InferStft});

}  // namespace ferry
