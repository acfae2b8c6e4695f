#include "convert/quantize/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "convert/quantize/prefixes.h"

namespace ferry::quantize {
namespace {

constexpr size_t kQuickSamples = 2;

// The scheme of what is left of the base when its first nodes are taken away.
Scheme SchemeFrom(const Scheme& whole, size_t begin) {
  Scheme rest = whole;
  rest.layers.clear(), rest.how.clear();
  for (size_t i = 0; i < whole.layers.size(); ++i) {
    Layer layer = whole.layers[i];
    if (layer.node < begin) continue;
    layer.node -= begin;
    if (layer.bias_adder >= 0) layer.bias_adder -= static_cast<int64_t>(begin);
    rest.layers.push_back(std::move(layer));
    rest.how.push_back(whole.how[i]);
  }
  return rest;
}

class Search {
 public:
  Search(Workshop& workshop, const Judge& judge, RangeMethod ranges, const Goal& goal)
      : workshop_(workshop), judge_(judge), ranges_(ranges), goal_(goal) {}

  Trial Run(std::vector<Rung>& rungs, Trial best, const std::vector<size_t>& order) {
    reached_ = rungs;
    for (int rung = 0; rung < 8 && !goal_.Met(best.found); ++rung) {
      std::vector<Rung> all = Lifted(rungs, order, order.size());
      if (all == rungs) break;
      Trial trial = workshop_.Try(all, ranges_, judge_);
      if (!goal_.Met(trial.found)) {
        rungs = std::move(all);
        if (!(goal_.Loss(trial.found) > goal_.Loss(best.found))) best = std::move(trial), reached_ = rungs;
        continue;
      }
      best = std::move(trial);
      size_t fails = 0, holds = order.size();
      while (holds - fails > 1) {
        const size_t middle = fails + (holds - fails) / 2;
        Trial next = workshop_.Try(Lifted(rungs, order, middle), ranges_, judge_);
        if (goal_.Met(next.found))
          holds = middle, best = std::move(next);
        else
          fails = middle;
      }
      rungs = Lifted(rungs, order, holds);
      return best;
    }
    rungs = reached_;
    return best;
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
  const Goal& goal_;
  std::vector<Rung> reached_;  // those of the nearest that was tried
};

}  // namespace

std::vector<double> MeasureAlone(Workshop& workshop, const Judge& judge, RangeMethod ranges,
                                 const std::vector<Rung>& rungs, bool remember) {
  const Judge quick = judge.Fewer(kQuickSamples);
  std::optional<Prefixes> prefixes;
  if (remember) prefixes.emplace(workshop.base(), judge.samples(), quick.chosen(), workshop.options().threads);
  std::vector<double> alone(rungs.size(), kNoNoise);
  SessionOptions options;
  options.threads = workshop.options().threads;
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (const auto& progress = workshop.options().progress)
      progress("measuring layers", static_cast<int64_t>(i), static_cast<int64_t>(rungs.size()));
    if (rungs[i].way == Way::kFloat) continue;
    std::vector<Rung> one(rungs.size());
    one[i] = rungs[i];
    if (prefixes && !prefixes->AdvanceTo(workshop.layers()[i].node)) prefixes.reset();
    if (!prefixes) {
      alone[i] = workshop.Try(one, ranges, quick).found.snr;
      continue;
    }
    const Scheme rest = SchemeFrom(workshop.MakeScheme(one, ranges), prefixes->begin());
    const auto session = Session::FromModel(WriteScheme(prefixes->Rest(), rest, workshop.opset()), options);
    alone[i] = quick.Compare(*session, [&](size_t place) { return prefixes->Inputs(place); }).snr;
  }
  return alone;
}

Trial SearchRungs(Workshop& workshop, const Judge& judge, RangeMethod ranges, const Goal& goal,
                  std::vector<Rung>& rungs, Trial start, std::vector<std::string>& whys, std::vector<double>& alone) {
  Search search(workshop, judge, ranges, goal);
  const std::vector<Rung> before = rungs;
  if (alone.empty()) alone = MeasureAlone(workshop, judge, ranges, rungs);
  Trial found = search.Run(rungs, std::move(start), search.Order(alone));
  for (size_t i = 0; i < rungs.size(); ++i)
    if (!(rungs[i] == before[i])) whys[i] = Cat("lifted to hold ", ToText(goal.budget));
  return found;
}

}  // namespace ferry::quantize
