// What a result must keep: of the answers of the float model, or of its accuracy.
#pragma once

#include <string>

#include "convert/quantize/measure.h"

namespace ferry::quantize {

struct QuantizeBudget {
  enum class Measure : uint8_t { kTop1, kAgree, kCosine, kMaxRel, kSnr };
  Measure measure = Measure::kCosine;
  double limit = 0;  // top1, agree: percent that may be lost; cosine, snr: the least; max-rel: the most
};
// "top1=0.5%", "agree=1%", "cosine=0.999", "max-rel=0.01", "snr=30".
QuantizeBudget ParseBudget(const std::string& text);
std::string ToText(const QuantizeBudget& budget);
// What was found of the budget's measure: "agree=0.31%".
std::string MeasuredText(const QuantizeBudget& budget, const Faithfulness& found);
// Losses that go with the power of the noise; the others go with its root.
inline bool IsOfPower(const QuantizeBudget& budget) {
  return budget.measure == QuantizeBudget::Measure::kCosine || budget.measure == QuantizeBudget::Measure::kSnr;
}
// Why such a budget says nothing of these answers, `itself` being the float model's held against themselves; or
// nothing.
std::string WhyNotMeasured(const QuantizeBudget& budget, const Faithfulness& itself, const std::string& labels);
bool Holds(const QuantizeBudget& budget, const Faithfulness& found);

// All measures as something that is lost: points, percent, 1 - cosine, part of the largest, noise over signal.
double LossOf(const QuantizeBudget& budget, const Faithfulness& found);
double MostLoss(const QuantizeBudget& budget);

// A loss to stay below on samples that stand for others: as measured, and with so many standard errors to spare.
struct Goal {
  QuantizeBudget budget;
  double most = 0;        // loss
  double confidence = 0;  // standard errors; 0: as measured
  bool Met(const Faithfulness& found) const;
  // The larger of both losses.
  double Loss(const Faithfulness& found) const;
};

}  // namespace ferry::quantize
