#include "convert/quantize/budget.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"

namespace ferry::quantize {
namespace {

using Measure = QuantizeBudget::Measure;

const char* const kMeasures[] = {"top1", "agree", "cosine", "max-rel", "snr"};
constexpr double kRounding = 1e-6;

}  // namespace

QuantizeBudget ParseBudget(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string word = text.substr(0, equals);
  for (size_t i = 0; i < std::size(kMeasures); ++i) {
    if (equals == std::string::npos || word != kMeasures[i]) continue;
    std::string number = text.substr(equals + 1);
    const bool percent = !number.empty() && number.back() == '%';
    if (percent) number.pop_back();
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    const Measure measure = static_cast<Measure>(i);
    bool fits = !number.empty() && *end == 0 && std::isfinite(value) && value >= 0;
    if (measure == Measure::kCosine) fits &= value <= 1 && !percent;
    if (fits) return {measure, percent && measure == Measure::kMaxRel ? value / 100 : value};
  }
  Fail(ErrorCode::kInvalidArgument, "'", Printable(text),
       "' is no budget: say top1=0.5%, agree=1%, cosine=0.999, max-rel=0.01 or snr=30");
}

namespace {

std::string ToText(const QuantizeBudget& budget, int digits) {
  const bool percent = budget.measure == Measure::kTop1 || budget.measure == Measure::kAgree;
  char number[64];
  std::snprintf(number, sizeof number, "%.*g", digits, budget.limit);
  return Cat(kMeasures[static_cast<size_t>(budget.measure)], "=", number, percent ? "%" : "");
}

}  // namespace

std::string ToText(const QuantizeBudget& budget) { return ToText(budget, 7); }

std::string MeasuredText(const QuantizeBudget& budget, const Faithfulness& found) {
  const double loss = LossOf(budget, found);
  const double limit = budget.measure == Measure::kCosine ? 1 - loss
                       : budget.measure == Measure::kSnr  ? found.snr
                                                          : loss;
  return ToText({budget.measure, limit}, budget.measure == Measure::kCosine ? 7 : 3);
}

std::string WhyNotMeasured(const QuantizeBudget& budget, const Faithfulness& itself, const std::string& labels) {
  const bool can[] = {itself.top1.has_value(), itself.rows > 0, itself.numbers, itself.numbers, itself.numbers};
  if (can[static_cast<size_t>(budget.measure)]) return {};
  std::vector<std::string> others;
  for (size_t i = 0; i < std::size(can); ++i)
    if (can[i]) others.emplace_back(kMeasures[i]);
  std::string why = "no output has floating numbers";
  if (budget.measure == Measure::kAgree) why = "no output has two columns or more, or whole numbers";
  if (budget.measure == Measure::kTop1)
    why = labels.empty() ? "the labels fit no output that has a row of scores, or a whole number, for each"
                         : labels + ": whole numbers are needed, one for each row of the proof";
  return Cat("the budget ", ToText(budget), " cannot be measured: ", why,
             others.empty() ? "" : Cat("; what can be: ", Join(others, ", ")));
}

double LossOf(const QuantizeBudget& budget, const Faithfulness& found) {
  if (!found.finite) return INFINITY;
  switch (budget.measure) {
    case Measure::kTop1:
      Require(found.top1.has_value(), "top1 needs labels: an array 'labels' in the data, one for each row");
      return *found.float_top1 - *found.top1;
    case Measure::kAgree: return 100 - found.agree;
    case Measure::kCosine: return 1 - found.cosine;
    case Measure::kMaxRel: return found.max_rel;
    case Measure::kSnr: return found.snr >= kNoNoise ? 0 : std::pow(10, -found.snr / 10);
  }
  return INFINITY;
}

double MostLoss(const QuantizeBudget& budget) {
  switch (budget.measure) {
    case Measure::kCosine: return 1 - budget.limit;
    case Measure::kSnr: return std::pow(10, -budget.limit / 10);
    case Measure::kTop1:
    case Measure::kAgree:
    case Measure::kMaxRel: return budget.limit;
  }
  return 0;
}

bool Holds(const QuantizeBudget& budget, const Faithfulness& found) {
  return Goal{budget, MostLoss(budget)}.Met(found);
}

double Goal::Loss(const Faithfulness& found) const {
  const double measured = LossOf(budget, found);
  if (!(confidence > 0)) return measured;
  const double assured = LossOf(budget, found.Assured(confidence));
  return assured < measured ? measured : assured;
}

bool Goal::Met(const Faithfulness& found) const {
  return Loss(found) <= most + kRounding * std::min(most, 1e-3) + 1e-15;
}

}  // namespace ferry::quantize
