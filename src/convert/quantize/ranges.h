// What calibration sees of a value, and the range that eight bits are given to.
#pragma once

#include <cstdint>
#include <vector>

#include "convert/quantize/scheme.h"

namespace ferry::quantize {

// Filled by one pass in memory that does not depend on the number of samples.
class Observation {
 public:
  // `channel_axis` < 0: channels are not told apart.
  void Add(const Tensor& tensor, int64_t channel_axis);

  float low() const { return low_; }
  float high() const { return high_; }
  int64_t count() const { return count_; }
  int64_t not_finite() const { return not_finite_; }
  double mean_square() const { return count_ > 0 ? squares_ / static_cast<double>(count_) : 0; }
  double variance() const;
  // Mean square error if every run chose its own range.
  double dynamic_noise() const { return count_ > 0 ? dynamic_noise_ / static_cast<double>(count_) : 0; }
  std::vector<float> ChannelMeans() const;
  std::vector<float> ChannelSquares() const;
  const std::vector<float>& channel_largest() const { return channel_largest_; }

  // Mean square error of a coding, by the histogram; the part that it cuts off.
  double Noise(const Coding& coding) const;
  double CutOff(const Coding& coding) const;
  std::vector<double> Histogram(int bins) const;

  Coding Choose(RangeMethod method, double percentile, const Conventions& conventions) const;

 private:
  static constexpr int kBins = 2048;
  void Widen(float low, float high);
  void AddChannels(const Tensor& tensor, size_t axis);
  void AddRows(const float* data, int64_t rows);
  double BinCentre(int bin) const { return bottom_ + (bin + 0.5) * width_; }
  std::pair<float, float> ByPercentile(double percentile, bool symmetric) const;
  std::pair<float, float> ByError(const Conventions& conventions) const;
  std::pair<float, float> ByEntropy(bool symmetric) const;

  float low_ = 0, high_ = 0;
  int64_t count_ = 0, zeros_ = 0, not_finite_ = 0;
  double sum_ = 0, squares_ = 0, dynamic_noise_ = 0;
  double bottom_ = 0, width_ = 0;  // of the histogram
  std::vector<double> bins_;
  std::vector<double> channel_sums_, channel_squares_;
  std::vector<float> channel_largest_;
  int64_t channel_count_ = 0;  // elements of each channel
};

// Eight bits from low to high, zero exact.
Coding MakeCoding(float low, float high, const Conventions& conventions);

}  // namespace ferry::quantize
