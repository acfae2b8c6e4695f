#include "ops/support/fft.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/work_poll.h"

namespace ferry {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kLargestRadix = 13;

template <class T>
Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
Complex<T> Scaled(double s, Complex<T> a) {
  return {static_cast<T>(s) * a.re, static_cast<T>(s) * a.im};
}
template <class T>
Complex<T> Conj(Complex<T> a) {
  return {a.re, -a.im};
}
template <class T>
Complex<T> TimesMinusI(Complex<T> a) {
  return {a.im, -a.re};
}

// exp(-2πi·k/n). The angle is folded into the first octant, where sine and cosine are most exact.
Complex<double> ExactRoot(int64_t k, int64_t n) {
  k %= n;
  if (2 * k > n) return Conj(ExactRoot(n - k, n));
  if (4 * k > n) {
    Complex<double> mirrored = ExactRoot(n - 2 * k, 2 * n);
    return {-mirrored.re, mirrored.im};
  }
  if (8 * k > n) {
    double angle = 2 * kPi * (static_cast<double>(n - 4 * k) / (4 * static_cast<double>(n)));
    return {std::sin(angle), -std::cos(angle)};
  }
  double angle = 2 * kPi * (static_cast<double>(k) / static_cast<double>(n));
  return {std::cos(angle), -std::sin(angle)};
}
template <class T>
Complex<T> Root(int64_t k, int64_t n) {
  Complex<double> root = ExactRoot(k, n);
  return {static_cast<T>(root.re), static_cast<T>(root.im)};
}

// The radices of a length, in the order in which numpy takes them; empty when a factor is too large for a direct
// butterfly.
std::vector<int64_t> Radices(int64_t length) {
  std::vector<int64_t> radices;
  for (int64_t radix : {4, 2, 3, 5, 7, 11, 13}) {
    for (; length % radix == 0; length /= radix) {
      radices.push_back(radix);
      if (radix == 2) std::swap(radices.front(), radices.back());
    }
  }
  if (length != 1) radices.clear();
  return radices;
}

struct Butterfly2 {
  static constexpr int64_t kRadix = 2;
  template <class C>
  void operator()(const C* a, C* b) const {
    b[0] = a[0] + a[1];
    b[1] = a[0] - a[1];
  }
};
struct Butterfly3 {
  static constexpr int64_t kRadix = 3;
  template <class C>
  void operator()(const C* a, C* b) const {
    constexpr double kSin = 0.86602540378443864676;
    C sum = a[1] + a[2], turn = Scaled(kSin, TimesMinusI(a[1] - a[2])), mid = a[0] - Scaled(0.5, sum);
    b[0] = a[0] + sum;
    b[1] = mid + turn;
    b[2] = mid - turn;
  }
};
struct Butterfly4 {
  static constexpr int64_t kRadix = 4;
  template <class C>
  void operator()(const C* a, C* b) const {
    C even = a[0] + a[2], even_turn = a[0] - a[2], odd = a[1] + a[3], odd_turn = TimesMinusI(a[1] - a[3]);
    b[0] = even + odd;
    b[1] = even_turn + odd_turn;
    b[2] = even - odd;
    b[3] = even_turn - odd_turn;
  }
};
struct Butterfly5 {
  static constexpr int64_t kRadix = 5;
  template <class C>
  void operator()(const C* a, C* b) const {
    constexpr double kCos1 = 0.30901699437494742410, kCos2 = -0.80901699437494742410;
    constexpr double kSin1 = 0.95105651629515357212, kSin2 = 0.58778525229247312917;
    C s1 = a[1] + a[4], d1 = a[1] - a[4], s2 = a[2] + a[3], d2 = a[2] - a[3];
    C m1 = a[0] + Scaled(kCos1, s1) + Scaled(kCos2, s2), m2 = a[0] + Scaled(kCos2, s1) + Scaled(kCos1, s2);
    C t1 = TimesMinusI(Scaled(kSin1, d1) + Scaled(kSin2, d2)), t2 = TimesMinusI(Scaled(kSin2, d1) - Scaled(kSin1, d2));
    b[0] = a[0] + s1 + s2;
    b[1] = m1 + t1;
    b[2] = m2 + t2;
    b[3] = m2 - t2;
    b[4] = m1 - t1;
  }
};
// Any small odd radix, by its definition.
template <class T>
struct ButterflyAny {
  explicit ButterflyAny(int64_t radix) : kRadix(radix) {
    for (int64_t k = 0; k < radix; ++k) roots[k] = Root<T>(k, radix);
  }
  const int64_t kRadix;
  Complex<T> roots[kLargestRadix];
  void operator()(const Complex<T>* a, Complex<T>* b) const {
    for (int64_t k = 0; k < kRadix; ++k) {
      Complex<T> sum = a[0];
      for (int64_t j = 1, turn = k; j < kRadix; ++j, turn += k) sum = sum + a[j] * roots[turn % kRadix];
      b[k] = sum;
    }
  }
};

// One stage of Stockham's self-sorting transform: `groups` groups of kRadix interleaved sequences, `stride` apart.
template <class Butterfly, class T>
void RunStage(const Butterfly& butterfly, int64_t groups, int64_t stride, const Complex<T>* twiddles,
              const Complex<T>* from, Complex<T>* to) {
  const int64_t radix = butterfly.kRadix;
  Complex<T> a[kLargestRadix], b[kLargestRadix];
  WorkPoll poll;
  for (int64_t p = 0; p < groups; ++p, twiddles += radix - 1) {
    ForLookedParts(stride, 2 * radix, [&](int64_t begin, int64_t end) {
      for (int64_t q = begin; q < end; ++q) {
        for (int64_t j = 0; j < radix; ++j) a[j] = from[q + stride * (p + groups * j)];
        butterfly(a, b);
        Complex<T>* out = to + q + stride * radix * p;
        out[0] = b[0];
        for (int64_t j = 1; j < radix; ++j) out[stride * j] = b[j] * twiddles[j - 1];
      }
    });
    poll(2 * stride * radix);
  }
}

}  // namespace

// A transform of length n as a convolution of a smoother length with the chirp exp(-πi·k²/n): three transforms in a
// row, so it is done in double for float as well.
template <class T>
struct Fft<T>::Bluestein {
  Fft<double> inner;
  std::vector<Complex<double>> chirp;           // [n]
  std::vector<Complex<double>> chirp_spectrum;  // of the conjugate chirp, wrapped around
};

template <class T>
Fft<T>::Fft(int64_t length) : length_(length) {
  Require(length >= 1, "a transform needs a length of at least 1, not ", length);
  Require(length <= (int64_t{1} << 40), "a transform of length ", length, " is too long");
  std::vector<int64_t> radices = Radices(length);
  if (radices.empty() && length > 1) {
    int64_t inner_length = 1;
    while (inner_length < 2 * length - 1) inner_length *= 2;
    bluestein_ = std::make_unique<Bluestein>(Bluestein{Fft<double>(inner_length), {}, {}});
    bluestein_->chirp.resize(static_cast<size_t>(length));
    bluestein_->chirp_spectrum.resize(static_cast<size_t>(inner_length));
    int64_t square = 0;  // k² modulo 2n
    WorkPoll poll;
    for (int64_t k = 0; k < length; ++k) {
      poll(64);
      Complex<double> root = ExactRoot(square, 2 * length);
      bluestein_->chirp[static_cast<size_t>(k)] = root;
      bluestein_->chirp_spectrum[static_cast<size_t>(k)] = Conj(root);
      if (k > 0) bluestein_->chirp_spectrum[static_cast<size_t>(inner_length - k)] = Conj(root);
      square = (square + 2 * k + 1) % (2 * length);
    }
    bluestein_->inner.Forward(bluestein_->chirp_spectrum);
    return;
  }
  int64_t remaining = length;
  for (int64_t radix : radices) {
    Stage stage{radix, {}};
    int64_t groups = remaining / radix;
    stage.twiddles.reserve(static_cast<size_t>(groups * (radix - 1)));
    WorkPoll poll;
    for (int64_t p = 0; p < groups; ++p, poll(64 * radix))
      for (int64_t j = 1; j < radix; ++j) stage.twiddles.push_back(Root<T>(p * j, remaining));
    stages_.push_back(std::move(stage));
    remaining = groups;
  }
}

template <class T>
Fft<T>::~Fft() = default;
template <class T>
Fft<T>::Fft(Fft&&) noexcept = default;
template <class T>
Fft<T>& Fft<T>::operator=(Fft&&) noexcept = default;

template <class T>
void Fft<T>::RunStages(std::vector<Complex<T>>& data) const {
  std::vector<Complex<T>> other(data.size());
  int64_t groups = length_, stride = 1;
  for (const Stage& stage : stages_) {
    groups /= stage.radix;
    const Complex<T>* twiddles = stage.twiddles.data();
    switch (stage.radix) {
      case 2: RunStage(Butterfly2(), groups, stride, twiddles, data.data(), other.data()); break;
      case 3: RunStage(Butterfly3(), groups, stride, twiddles, data.data(), other.data()); break;
      case 4: RunStage(Butterfly4(), groups, stride, twiddles, data.data(), other.data()); break;
      case 5: RunStage(Butterfly5(), groups, stride, twiddles, data.data(), other.data()); break;
      default: RunStage(ButterflyAny<T>(stage.radix), groups, stride, twiddles, data.data(), other.data()); break;
    }
    data.swap(other);
    stride *= stage.radix;
  }
}

template <class T>
void Fft<T>::RunBluestein(std::vector<Complex<T>>& data) const {
  const Bluestein& b = *bluestein_;
  std::vector<Complex<double>> work(b.chirp_spectrum.size());
  for (size_t k = 0; k < data.size(); ++k) work[k] = Complex<double>{data[k].re, data[k].im} * b.chirp[k];
  b.inner.Forward(work);
  for (size_t k = 0; k < work.size(); ++k) work[k] = work[k] * b.chirp_spectrum[k];
  b.inner.Backward(work);
  double scale = 1.0 / static_cast<double>(work.size());
  for (size_t k = 0; k < data.size(); ++k) {
    Complex<double> value = Scaled(scale, work[k] * b.chirp[k]);
    data[k] = {static_cast<T>(value.re), static_cast<T>(value.im)};
  }
}

template <class T>
void Fft<T>::Forward(std::vector<Complex<T>>& data) const {
  if (bluestein_)
    RunBluestein(data);
  else
    RunStages(data);
}

template <class T>
void Fft<T>::Backward(std::vector<Complex<T>>& data) const {
  for (Complex<T>& value : data) std::swap(value.re, value.im);
  Forward(data);
  for (Complex<T>& value : data) std::swap(value.re, value.im);
}

template <class T>
RealFft<T>::RealFft(int64_t length) : length_(length), fft_(length >= 1 && length % 2 == 0 ? length / 2 : length) {
  if (!is_even()) return;
  WorkPoll poll;
  for (int64_t k = 0; k <= length / 2; ++k, poll(64)) twiddles_.push_back(Root<T>(k, length));
}

template <class T>
void RealFft<T>::Forward(const std::vector<T>& signal, std::vector<Complex<T>>& spectrum) const {
  auto half = static_cast<size_t>(fft_.length());
  std::vector<Complex<T>> data(half);
  spectrum.resize(static_cast<size_t>(bins()));
  if (!is_even()) {
    for (size_t i = 0; i < half; ++i) data[i] = {signal[i], 0};
    fft_.Forward(data);
    std::copy_n(data.begin(), spectrum.size(), spectrum.begin());
    return;
  }
  // Even samples as the real part, odd ones as the imaginary part of a signal of half the length.
  for (size_t i = 0; i < half; ++i) data[i] = {signal[2 * i], signal[2 * i + 1]};
  fft_.Forward(data);
  for (size_t k = 0; k <= half; ++k) {
    Complex<T> here = data[k % half], mirrored = Conj(data[(half - k) % half]);
    Complex<T> even = Scaled(0.5, here + mirrored), odd = Scaled(0.5, TimesMinusI(here - mirrored));
    spectrum[k] = even + odd * twiddles_[k];
  }
}

template <class T>
void RealFft<T>::Backward(const std::vector<Complex<T>>& spectrum, std::vector<T>& signal) const {
  auto half = static_cast<size_t>(fft_.length());
  std::vector<Complex<T>> data(half);
  signal.resize(static_cast<size_t>(length_));
  // What a real signal cannot have is left out: the imaginary parts of the mean and of the highest frequency.
  if (!is_even()) {
    data[0] = {spectrum[0].re, 0};
    for (size_t k = 1; k < spectrum.size(); ++k) {
      data[k] = spectrum[k];
      data[half - k] = Conj(spectrum[k]);
    }
    fft_.Backward(data);
    for (size_t i = 0; i < half; ++i) signal[i] = data[i].re;
    return;
  }
  auto bin = [&](size_t k) { return k % half == 0 ? Complex<T>{spectrum[k].re, 0} : spectrum[k]; };
  for (size_t k = 0; k < half; ++k) {
    Complex<T> here = bin(k), mirrored = Conj(bin(half - k));
    Complex<T> even = here + mirrored, odd = (here - mirrored) * Conj(twiddles_[k]);
    data[k] = {even.re - odd.im, even.im + odd.re};
  }
  fft_.Backward(data);
  for (size_t i = 0; i < half; ++i) {
    signal[2 * i] = data[i].re;
    signal[2 * i + 1] = data[i].im;
  }
}

template class Fft<float>;
template class Fft<double>;
template class RealFft<float>;
template class RealFft<double>;

}  // namespace ferry
