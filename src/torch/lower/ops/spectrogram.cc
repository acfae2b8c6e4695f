// Short-time Fourier transforms.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

struct Frames {
  int64_t size = 0, hop = 0;
  Operand window;  // [size], or absent for a rectangular one
  bool normalized = false, onesided = true, complex_result = true;
};

// Windows that are shorter than a frame lie in its middle.
Operand Centred(Call& c, const Operand& window, int64_t length, int64_t size) {
  if (length == size) return window;
  int64_t left = (size - length) / 2;
  if (window) return c.b.Emit("Pad", {window, c.b.Ints({left, size - length - left})});
  Operand ones = c.b.Fill(1, c.Tensor(0).dtype(), c.b.Ints({length}));
  return c.b.Emit("Pad", {ones, c.b.Ints({left, size - length - left})});
}

// Arguments 1 to 4: n_fft, hop_length, win_length, window.
Frames FramesOf(Call& c, size_t normalized, size_t onesided, size_t return_complex) {
  if (!c.IsNone(return_complex + 1) && c.Bool(return_complex + 1)) c.Unsupported("align_to_window has no export");
  Frames frames;
  frames.size = c.Int(1);
  frames.hop = c.IsNone(2) ? frames.size / 4 : c.Int(2);
  int64_t length = c.IsNone(3) ? frames.size : c.Int(3);
  Require(frames.size > 0 && frames.hop > 0 && length > 0 && length <= frames.size, "frames of ", frames.size,
          ", steps of ", frames.hop, " and windows of ", length, " do not go together");
  RequireFewPositions(static_cast<double>(frames.size));
  frames.window = Centred(c, c.MaybeTensor(4), length, frames.size);
  frames.normalized = c.Bool(normalized);
  frames.onesided = c.IsNone(onesided) || c.Bool(onesided);
  frames.complex_result = !c.IsNone(return_complex) && c.Bool(return_complex);
  return frames;
}

Result Spectrogram(Call& c, Operand signal, const Frames& frames) {
  Builder& b = c.b;
  bool single = signal.rank() == 1;
  if (single) signal = b.Unsqueeze(signal, {0});
  Operand total = b.AsRank0(b.SizeOf(signal, 1));
  Operand starts = b.Range(b.Int(0), b.Add(b.Sub(total, b.Int(frames.size)), b.Int(1)), b.Int(frames.hop));
  Operand indices = b.Add(b.Unsqueeze(starts, {1}), b.Range(b.Int(0), b.Int(frames.size), b.Int(1)));
  Operand cut = b.Gather(signal, indices, 1);  // [batch, frames, size]
  if (frames.window) cut = b.Mul(cut, b.CastLike(frames.window, cut));
  Attributes attributes;
  if (frames.onesided) attributes.push_back({"onesided", int64_t{1}});
  Operand spectrum = b.Emit("DFT", {b.Unsqueeze(cut, {-1}), Operand(), b.Int(2)}, attributes);
  if (frames.normalized) spectrum = b.Mul(spectrum, 1 / std::sqrt(static_cast<double>(frames.size)));
  Operand turned = b.Transpose(spectrum, {0, 2, 1, 3});
  if (single) turned = b.Squeeze(turned, {0});
  return frames.complex_result ? turned.AsComplex() : turned;
}

Result Stft(Call& c) { return Spectrogram(c, c.Tensor(0), FramesOf(c, 5, 6, 7)); }
// The signal is continued on both sides, so that frames are centred at their time.
Result StftCentred(Call& c) {
  Builder& b = c.b;
  Operand signal = c.Tensor(0);
  Frames frames = FramesOf(c, 7, 8, 9);
  if (c.Bool(5)) {
    std::string mode = c.Text(6);
    if (mode == "replicate") mode = "edge";
    if (mode == "circular") mode = "wrap";
    int64_t side = frames.size / 2;
    std::vector<int64_t> pads(2 * signal.rank());
    pads[signal.rank() - 1] = pads.back() = side;
    signal = b.Emit("Pad", {signal, b.Ints(pads)}, {{"mode", mode}});
  }
  return Spectrogram(c, signal, frames);
}

// Frames [batch, size, frames] added up where they overlap: a transposed convolution whose kernel only places them.
Operand OverlapAdd(Builder& b, const Operand& frames, int64_t size, int64_t hop) {
  Operand order = b.Range(b.Int(0), b.Int(size), b.Int(1));
  Operand placing = b.CastLike(b.Equal(b.Unsqueeze(order, {1}), order), frames);
  return b.Squeeze(
      b.Emit("ConvTranspose", {frames, b.Unsqueeze(placing, {1})}, {{"strides", std::vector<int64_t>{hop}}}), {1});
}
// The frames of a spectrogram back into their signal, divided by what the windows weighed together.
Result Istft(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0);
  int64_t size = c.Int(1), hop = c.IsNone(2) ? size / 4 : c.Int(2), length = c.IsNone(3) ? size : c.Int(3);
  Require(size > 0 && hop > 0 && length > 0 && length <= size, "frames of ", size, ", steps of ", hop,
          " and windows of ", length, " do not go together");
  RequireFewPositions(static_cast<double>(size));
  Dim bins = x.dim(-2), count = x.dim(-1);
  if (!x.is_complex() || !bins.known() || !count.known() || c.Bool(9))
    c.Unsupported("it needs a complex spectrogram of known sizes and a real result");
  bool single = x.rank() == 2;
  if (single) x = b.Unsqueeze(x, {0});
  Operand spectrum = b.SwapAxes(x, 1, 2);  // [batch, frames, bins]
  // Only the first half counts, also of a full spectrum: the signal is real.
  int64_t kept = size / 2 + 1;
  if (*bins.value < kept) c.Unsupported("a spectrum of ", *bins.value, " bins is too small for frames of ", size);
  spectrum = b.Slice(spectrum, 2, Scalar(0), Scalar(kept));
  std::vector<int64_t> back(static_cast<size_t>(size - kept));
  std::iota(back.rbegin(), back.rend(), 1);
  if (!back.empty()) {
    Operand mirrored = b.Gather(spectrum, b.Ints(back), 2).AsPairs();
    Operand signs = b.CastLike(b.Ints({1, -1}), mirrored);
    spectrum = b.Concat({spectrum, b.Mul(mirrored, signs).AsComplex()}, 2);
  }
  Operand frames =
      b.Real(b.Emit("DFT", {spectrum.AsPairs(), Operand(), b.Int(2)}, {{"inverse", int64_t{1}}}).AsComplex());
  if (c.Bool(6)) frames = b.Mul(frames, std::sqrt(static_cast<double>(size)));
  Operand window = Centred(c, c.MaybeTensor(4), length, size);
  if (window && window.is_complex()) c.Unsupported("a complex window has no export");
  window = window ? b.CastLike(window, frames) : b.Fill(1, frames.dtype(), b.Ints({size}));
  Operand signal = OverlapAdd(b, b.SwapAxes(b.Mul(frames, window), 1, 2), size, hop);
  Operand weight = b.Expand(b.Unsqueeze(b.Mul(window, window), {0, 2}), b.Ints({1, size, *count.value}));
  Operand envelope = OverlapAdd(b, weight, size, hop);
  int64_t total = size + CheckedProduct(hop, *count.value) - hop, begin = c.Bool(5) ? size / 2 : 0;
  int64_t end = !c.IsNone(8) ? begin + c.IntsOf(8, 1, 0)[0] : c.Bool(5) ? total - size / 2 : total;
  int64_t reached = std::min(end, total);
  Operand cut =
      b.Div(b.Slice(signal, 1, Scalar(begin), Scalar(reached)), b.Slice(envelope, 1, Scalar(begin), Scalar(reached)));
  if (end > total) cut = b.Emit("Pad", {cut, b.Ints({0, 0, 0, end - total})});
  return single ? b.Squeeze(cut, {0}) : cut;
}

// Windows that are the same at every run: `shape` says how high they are at a place from 0 to 1.
template <class Shape>
Operand WindowOf(Call& c, size_t dtype_at, const Shape& shape) {
  int64_t length = c.Int(0);
  if (length < 0) c.Unsupported("a window has ", length, " elements");
  RequireFewPositions(static_cast<double>(length));
  auto last = static_cast<double>(c.Bool(1) ? length : length - 1);
  std::vector<double> heights;
  for (int64_t i = 0; i < length; ++i) heights.push_back(length == 1 ? 1 : shape(static_cast<double>(i) / last));
  return c.b.Cast(c.b.Constant(Tensor::FromVector<double>(heights)), c.Type(dtype_at, DType::kFloat));
}
Result HannWindow(Call& c) {
  return WindowOf(c, 2, [](double x) { return 0.5 - 0.5 * std::cos(2 * M_PI * x); });
}
Result HammingWindow(Call& c) {
  double alpha = c.Float(2), beta = c.Float(3);
  return WindowOf(c, 4, [=](double x) { return alpha - beta * std::cos(2 * M_PI * x); });
}
Result BlackmanWindow(Call& c) {
  return WindowOf(c, 2, [](double x) { return 0.42 - 0.5 * std::cos(2 * M_PI * x) + 0.08 * std::cos(4 * M_PI * x); });
}
Result BartlettWindow(Call& c) {
  return WindowOf(c, 2, [](double x) { return 1 - std::abs(2 * x - 1); });
}

#define WINDOW_ARGS "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)"
constexpr Rule kRules[] = {
    {"hann_window.default,periodic(int window_length, bool periodic=True, " WINDOW_ARGS, HannWindow},
    {"hamming_window.default,periodic,periodic_alpha,periodic_alpha_beta(int window_length, bool periodic=True, "
     "float alpha=0.54, float beta=0.46, " WINDOW_ARGS,
     HammingWindow},
    {"blackman_window.default,periodic(int window_length, bool periodic=True, " WINDOW_ARGS, BlackmanWindow},
    {"bartlett_window.default,periodic(int window_length, bool periodic=True, " WINDOW_ARGS, BartlettWindow},
    {"istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, "
     "bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False)",
     Istft, RuleKind::kPlain, kComplexToo},
    {"stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
     "bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None)",
     Stft},
    {"stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
     "bool center=True, str pad_mode=\"reflect\", bool normalized=False, bool? onesided=None, "
     "bool? return_complex=None, bool? align_to_window=None)",
     StftCentred},
};
#undef WINDOW_ARGS

}  // namespace

std::span<const Rule> SpectrogramRules() { return kRules; }

}  // namespace ferry::torch
