// Discrete Fourier transforms of any length: mixed radix where the length has small factors, Bluestein's convolution
// where it has not, so that no length costs more than O(n log n). T is float or double.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace ferry {

// Plain pairs: std::complex's product checks for NaN in a library call.
template <class T>
struct Complex {
  T re = 0, im = 0;
};

// A transform of one length; made once, used for any number of signals, by any number of threads.
template <class T>
class Fft {
 public:
  explicit Fft(int64_t length);  // at least 1
  ~Fft();
  Fft(Fft&&) noexcept;
  Fft& operator=(Fft&&) noexcept;

  int64_t length() const { return length_; }

  // data[k] = Σ data[n]·exp(∓2πi·kn/length), without any scaling.
  void Forward(std::vector<Complex<T>>& data) const;
  void Backward(std::vector<Complex<T>>& data) const;

 private:
  struct Stage {
    int64_t radix = 0;
    std::vector<Complex<T>> twiddles;  // (radix - 1) per group
  };
  struct Bluestein;
  void RunStages(std::vector<Complex<T>>& data) const;
  void RunBluestein(std::vector<Complex<T>>& data) const;

  int64_t length_ = 0;
  std::vector<Stage> stages_;
  std::unique_ptr<Bluestein> bluestein_;
};

// Transforms between a real signal of `length` and its length/2 + 1 independent frequencies, at half the cost when the
// length is even.
template <class T>
class RealFft {
 public:
  explicit RealFft(int64_t length);

  int64_t length() const { return length_; }
  int64_t bins() const { return length_ / 2 + 1; }

  void Forward(const std::vector<T>& signal, std::vector<Complex<T>>& spectrum) const;
  // The signal times `length`; the spectrum's missing half is the mirrored conjugate of what is given.
  void Backward(const std::vector<Complex<T>>& spectrum, std::vector<T>& signal) const;

 private:
  bool is_even() const { return length_ % 2 == 0; }

  int64_t length_;
  Fft<T> fft_;  // of half the length when that is whole
  std::vector<Complex<T>> twiddles_;
};

}  // namespace ferry
