// Short-time Fourier transforms.
#include <cmath>

#include "base/error.h"
#include "torch/lower/families.h"

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
  if (c.Bool(5)) {
    std::string mode = c.Text(6);
    if (mode == "replicate") mode = "edge";
    if (mode == "circular") mode = "wrap";
    int64_t side = c.Int(1) / 2;
    std::vector<int64_t> pads(2 * signal.rank());
    pads[signal.rank() - 1] = pads.back() = side;
    signal = b.Emit("Pad", {signal, b.Ints(pads)}, {{"mode", mode}});
  }
  return Spectrogram(c, signal, FramesOf(c, 7, 8, 9));
}

constexpr Rule kRules[] = {
    {"stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
     "bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None)",
     Stft},
    {"stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
     "bool center=True, str pad_mode=\"reflect\", bool normalized=False, bool? onesided=None, "
     "bool? return_complex=None, bool? align_to_window=None)",
     StftCentred},
};

}  // namespace

std::span<const Rule> SpectrogramRules() { return kRules; }

}  // namespace ferry::torch
