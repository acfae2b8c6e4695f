// What a comparison saw, row by row: enough to say what other samples of the same kind will keep.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace ferry::quantize {

constexpr double kNoNoise = 200;  // dB

// Sums over the answers of one output, for one row of the data or for all.
struct AnswerSums {
  double signal = 0, noise = 0;  // mean-free
  double dot = 0, a2 = 0, b2 = 0;
  double largest = 0, difference = 0;
  int64_t numbers = 0;  // that were compared
  int64_t rows = 0,
          same = 0;    // of more than one number, of which one is the largest; or whole numbers, each for itself
  bool finite = true;  // where the float model's are

  void Add(const AnswerSums& other);
  double snr() const;
  double cosine() const;
};

// The lead of the largest answer over the second, and the mean square of the noise around it.
struct Lead {
  double margin = 0, noise = 0;
};

class OutputEvidence {
 public:
  // `rows` of the data lie along the first axis, where that fits. Whole numbers are compared as what they name.
  AnswerSums Add(const Tensor& actual, const Tensor& expected, int64_t rows);
  const AnswerSums& total() const { return total_; }
  size_t units() const { return units_.size(); }
  // How often answers of the float model are close, other rows tell as well.
  void TakeLeads(const OutputEvidence& others);

  // Upper bounds of what samples of the same kind lose, `confidence` standard errors away.
  double NoiseRatio(double confidence) const;   // noise over signal
  double CosineLoss(double confidence) const;   // 1 - cosine
  double FlipRate(double confidence) const;     // part of rows whose largest answer moves
  double LargestPart(double confidence) const;  // largest difference over the largest answer, of many rows

 private:
  AnswerSums AddRows(const float* actual, const float* expected, int64_t count, int64_t width);
  double ChangeRate(double confidence) const;

  AnswerSums total_;
  std::vector<AnswerSums> units_;  // one for each row of the data: what is in one row hangs together
  std::vector<Lead> leads_;
  std::vector<double> other_margins_;
  size_t other_units_ = 0;
  bool is_whole_ = false;
};

// Standard errors become more where few samples tell how large they are (Student's t, first order).
double WithFewSamples(double confidence, size_t samples);

}  // namespace ferry::quantize
