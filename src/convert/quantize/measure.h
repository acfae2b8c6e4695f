// How far the answers of one model are from those of another, on samples.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convert/quantize/evidence.h"
#include "convert/quantize/samples.h"
#include "engine/session.h"

namespace ferry::quantize {

struct Faithfulness {
  double snr = 0;  // dB of the mean-free answers against the float model's, of the output that is worst
  double cosine = 1;
  double max_rel = 0;    // largest difference against the largest answer
  double agree = 100;    // percent of rows whose largest answer is at the same place, and of whole numbers
  int64_t rows = 0;      // of them; 0: no output has any
  bool numbers = false;  // there are some whose noise was measured
  std::optional<double> top1, float_top1;  // percent, where the data has labels
  bool finite = true;
  std::vector<std::pair<std::string, double>> samples;  // SNR of each, in the order of the samples
  std::vector<OutputEvidence> outputs;
  std::vector<OutputEvidence> between;         // on blends of samples, where they were asked for
  int64_t labelled = 0, lost = 0, gained = 0;  // rows with a label; those that became wrong, and right
  size_t labelled_output = 0;

  // Rows of the same kind, whose answers by the float model tell how close answers are.
  void TakeLeads(const Faithfulness& others);
  // What other samples of the same kind keep, so many standard errors on the safe side.
  Faithfulness Assured(double confidence) const;
};

// The float model's answers on some samples, kept while they are few; models are held against them.
class Judge {
 public:
  // `blends`: what lies between samples is looked at too. A network knows the samples that it was trained on better
  // than any others, and often they are those that a user has at hand; between them it is as unsure as elsewhere.
  Judge(std::shared_ptr<Session> original, const Samples& samples, std::vector<size_t> chosen, bool blends = false);
  Faithfulness Compare(const Session& other) const;
  // The same with inputs that stand for those of the sample at this place.
  using InputsAt = std::function<std::vector<NamedValue>(size_t place)>;
  Faithfulness Compare(const Session& other, const InputsAt& inputs) const;
  const std::vector<size_t>& chosen() const { return chosen_; }
  const Samples& samples() const { return samples_; }
  // The same on the first few samples only.
  Judge Fewer(size_t count) const;

 private:
  Judge(std::shared_ptr<Session> original, const Samples& samples)
      : original_(std::move(original)), samples_(samples) {}
  static std::vector<Tensor> Answers(const Session& session, std::vector<NamedValue> inputs);

  std::shared_ptr<Session> original_;
  const Samples& samples_;
  std::vector<size_t> chosen_;
  std::vector<NamedValue> Blend(size_t place) const;
  bool KeepAnswers();

  bool blends_ = false;
  std::vector<std::vector<Tensor>> answers_, blend_answers_;  // empty: too large to keep
};

// Numbers for a run that is only timed: open sizes are 1 along the first axis and some along the others.
std::vector<NamedValue> MakeUpInputs(const std::vector<ValueInfo>& inputs);
// Milliseconds of one run, the faster of two behind the first.
double TimeOf(const Session& session, const std::vector<NamedValue>& inputs);
// Milliseconds of one run of each, the fastest of some that are taken in turns.
std::pair<double, double> TimeInTurns(const Session& a, const Session& b, const std::vector<NamedValue>& inputs);

}  // namespace ferry::quantize
