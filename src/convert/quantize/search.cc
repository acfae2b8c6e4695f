#include "convert/quantize/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace ferry::quantize {
namespace {

class Search {
 public:
  Search(Workshop& workshop, const Judge& judge, RangeMethod ranges, const QuantizeBudget& budget)
      : workshop_(workshop), judge_(judge), ranges_(ranges), budget_(budget) {}

  std::vector<double> MeasureAlone(const std::vector<Rung>& rungs) {
    const Judge quick = judge_.Fewer(2);
    std::vector<double> alone(rungs.size(), 200.0);
    for (size_t i = 0; i < rungs.size(); ++i) {
      if (const auto& progress = workshop_.options().progress)
        progress("measuring layers", static_cast<int64_t>(i), static_cast<int64_t>(rungs.size()));
      if (rungs[i].way == Way::kFloat) continue;
      std::vector<Rung> one(rungs.size());
      one[i] = rungs[i];
      alone[i] = workshop_.Try(one, ranges_, quick).found.snr;
    }
    return alone;
  }

  // Those that cost most accuracy for the time they save come first.
  std::vector<size_t> Order(const std::vector<double>& alone) const {
    double most = 1;
    for (const Layer& layer : workshop_.layers()) most = std::max(most, layer.work);
    std::vector<double> worth(alone.size());
    for (size_t i = 0; i < alone.size(); ++i)
      worth[i] = std::pow(10.0, -alone[i] / 10) / (0.25 + workshop_.layers()[i].work / most);
    std::vector<size_t> order(alone.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return worth[a] > worth[b]; });
    return order;
  }

  Trial Run(std::vector<Rung>& rungs, Trial best, const std::vector<size_t>& order) {
    for (int rung = 0; rung < 6 && !Holds(budget_, best.found); ++rung) {
      std::vector<Rung> all = Lifted(rungs, order, order.size());
      if (all == rungs) break;
      Trial trial = workshop_.Try(all, ranges_, judge_);
      if (!Holds(budget_, trial.found)) {
        rungs = std::move(all);
        if (trial.found.snr > best.found.snr) best = std::move(trial);
        continue;
      }
      best = std::move(trial);
      size_t fails = 0, holds = order.size();
      while (holds - fails > 1) {
        const size_t middle = fails + (holds - fails) / 2;
        Trial next = workshop_.Try(Lifted(rungs, order, middle), ranges_, judge_);
        if (Holds(budget_, next.found))
          holds = middle, best = std::move(next);
        else
          fails = middle;
      }
      rungs = Lifted(rungs, order, holds);
    }
    return best;
  }

 private:
  std::vector<Rung> Lifted(const std::vector<Rung>& rungs, const std::vector<size_t>& order, size_t count) const {
    std::vector<Rung> lifted = rungs;
    for (size_t i = 0; i < count; ++i) {
      const size_t layer = order[i];
      if (rungs[layer].way != Way::kFloat) lifted[layer] = workshop_.NextRung(workshop_.layers()[layer], rungs[layer]);
    }
    return lifted;
  }

  Workshop& workshop_;
  const Judge& judge_;
  const RangeMethod ranges_;
  const QuantizeBudget& budget_;
};

}  // namespace

Trial SearchRungs(Workshop& workshop, const Judge& judge, RangeMethod ranges, const QuantizeBudget& budget,
                  std::vector<Rung>& rungs, Trial start, std::vector<std::string>& whys, std::vector<double>& alone) {
  Search search(workshop, judge, ranges, budget);
  const std::vector<Rung> before = rungs;
  if (alone.empty()) alone = search.MeasureAlone(rungs);
  Trial found = search.Run(rungs, std::move(start), search.Order(alone));
  for (size_t i = 0; i < rungs.size(); ++i)
    if (!(rungs[i] == before[i])) whys[i] = Cat("lifted to hold ", ToText(budget));
  return found;
}

}  // namespace ferry::quantize
