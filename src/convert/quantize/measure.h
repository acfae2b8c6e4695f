// How far the answers of one model are from those of another, on samples.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convert/quantize/samples.h"
#include "engine/session.h"

namespace ferry::quantize {

struct Faithfulness {
  double snr = 0;  // dB of the mean-free answers against the float model's, of the output that is worst
  double cosine = 1;
  double max_rel = 0;  // largest difference against the largest answer
  double agree = 100;  // percent of rows whose largest answer is at the same place
  int64_t rows = 0;
  std::optional<double> top1, float_top1;  // percent, where the data has labels
  bool finite = true;
  std::vector<std::pair<std::string, double>> samples;  // SNR of each, in the order of the samples
};

// The float model's answers on some samples, kept while they are few; models are held against them.
class Judge {
 public:
  Judge(std::shared_ptr<Session> original, const Samples& samples, std::vector<size_t> chosen);
  Faithfulness Compare(const Session& other) const;
  // The same on the first few samples only.
  Judge Fewer(size_t count) const;

 private:
  Judge(std::shared_ptr<Session> original, const Samples& samples)
      : original_(std::move(original)), samples_(samples) {}
  std::vector<Tensor> Answers(const Session& session, size_t sample) const;

  std::shared_ptr<Session> original_;
  const Samples& samples_;
  std::vector<size_t> chosen_;
  std::vector<std::vector<Tensor>> answers_;  // empty: too large to keep
};

// Milliseconds of one run, the faster of two behind the first.
double TimeOf(const Session& session, const std::vector<NamedValue>& inputs);
// Milliseconds of one run of each, the fastest of some that are taken in turns.
std::pair<double, double> TimeInTurns(const Session& a, const Session& b, const std::vector<NamedValue>& inputs);

}  // namespace ferry::quantize
