#include "convert/quantize/search.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "convert/quantize/prefixes.h"

namespace ferry::quantize {
namespace {

constexpr size_t kQuickSamples = 2;
constexpr double kHalfSnr = 72;  // dB of weights in half precision
constexpr double kLeastNoise = 1e-20;
constexpr double kTimeInRoom = 0.5;   // all of float's time weighs as much as half of the room
constexpr double kEachLayer = 1e-4;   // the fewest layers, where room and time are the same
constexpr double kFineEnough = 2e-3;  // of room and time, for which no further trial is made
constexpr int kGuesses = 5;

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

double NoiseOf(double snr) { return std::max(kLeastNoise, std::pow(10.0, -snr / 10)); }

double BitsOf(const Rung& rung) {
  switch (rung.way) {
    case Way::kFloat: return 32;
    case Way::kHalfWeights: return 16;
    case Way::kWeights:
      return rung.bits + (rung.block > 0 ? 32.0 + (rung.bits < 8 ? 4 : 0) : 0) /
                             std::max<double>(1, static_cast<double>(rung.block));
    case Way::kDynamic:
    case Way::kStatic: return 8;
  }
  return 32;
}

double TimePart(const Rung& rung) { return rung.way == Way::kStatic ? 0.35 : rung.way == Way::kDynamic ? 0.45 : 1.0; }

// Where no output has noise, the part of the whole numbers that change goes with its root.
double AnswerSnr(const Faithfulness& found) {
  return found.numbers ? found.snr : -20 * std::log10(std::max(1e-10, 1 - found.agree / 100));
}

class Measuring {
 public:
  Measuring(Workshop& workshop, const Judge& judge, RangeMethod ranges, size_t layers, bool remember)
      : workshop_(workshop), quick_(judge.Fewer(kQuickSamples)), ranges_(ranges), layers_(layers) {
    options_.threads = workshop.options().threads;
    if (remember) prefixes_.emplace(workshop.base(), judge.samples(), quick_.chosen(), options_.threads);
  }

  // In the order of the layers.
  std::vector<Step> Steps(size_t layer, Rung rung) {
    std::vector<Step> steps;
    std::optional<std::pair<double, double>> weights;  // noise in the answers, dB of the weights
    for (;; rung = workshop_.NextRung(workshop_.layers()[layer], rung)) {
      Step step{rung, 0, BitsOf(rung), TimePart(rung)};
      if (rung.way == Way::kStatic || rung.way == Way::kDynamic || (rung.way == Way::kWeights && !weights)) {
        const auto [snr, of_weights] = Measure(layer, rung);
        step.noise = NoiseOf(snr);
        if (rung.way == Way::kWeights) weights = {step.noise, of_weights};
      } else if (rung.way != Way::kFloat) {
        // Finer weights lose less by as much as they are nearer.
        const double finer =
            (rung.way == Way::kHalfWeights ? kHalfSnr : WeightSnr(layer, rung)) - (weights ? weights->second : 0);
        step.noise = (weights ? weights->first : 1) * std::pow(10.0, -finer / 10);
      }
      steps.push_back(step);
      if (rung.way == Way::kFloat) return steps;
    }
  }

 private:
  Scheme SchemeOf(size_t layer, const Rung& rung) {
    std::vector<Rung> one(layers_);
    one[layer] = rung;
    return workshop_.MakeScheme(one, ranges_);
  }

  double WeightSnr(size_t layer, const Rung& rung) { return workshop_.WeightSnr(SchemeOf(layer, rung), layer); }

  std::pair<double, double> Measure(size_t layer, const Rung& rung) {
    if (prefixes_ && !prefixes_->AdvanceTo(workshop_.layers()[layer].node)) prefixes_.reset();
    const Scheme scheme = SchemeOf(layer, rung);
    const double of_weights = rung.way == Way::kWeights ? workshop_.WeightSnr(scheme, layer) : 0;
    if (!prefixes_) {
      const auto session = Session::FromModel(workshop_.Write(scheme), options_);
      return {AnswerSnr(quick_.Compare(*session)), of_weights};
    }
    const Scheme rest = SchemeFrom(scheme, prefixes_->begin());
    const auto session = Session::FromModel(WriteScheme(prefixes_->Rest(), rest, workshop_.opset()), options_);
    const auto inputs = [&](size_t place) { return prefixes_->Inputs(place); };
    return {AnswerSnr(quick_.Compare(*session, inputs)), of_weights};
  }

  Workshop& workshop_;
  const Judge quick_;
  const RangeMethod ranges_;
  const size_t layers_;
  std::optional<Prefixes> prefixes_;
  SessionOptions options_;
};

}  // namespace

std::vector<std::vector<Step>> MeasureAlone(Workshop& workshop, const Judge& judge, RangeMethod ranges,
                                            const std::vector<Rung>& rungs, bool remember) {
  Measuring measuring(workshop, judge, ranges, rungs.size(), remember);
  std::vector<std::vector<Step>> steps;
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (const auto& progress = workshop.options().progress)
      progress("measuring layers", static_cast<int64_t>(i), static_cast<int64_t>(rungs.size()));
    steps.push_back(measuring.Steps(i, rungs[i]));
  }
  return steps;
}

RungSearch::RungSearch(Workshop& workshop, const Judge& judge, RangeMethod ranges, const std::vector<Rung>& rungs,
                       double most_more_bits)
    : workshop_(workshop), judge_(judge), ranges_(ranges), steps_(MeasureAlone(workshop, judge, ranges, rungs)) {
  FindPath(most_more_bits);
}

// Always the lift that takes away most noise for its price, until everything is float.
void RungSearch::FindPath(double most_more_bits) {
  double all_weights = 1, all_work = 1, more_bits = 0, noise = 0, cost = 0;
  for (const Layer& layer : workshop_.layers()) all_weights += layer.weights_count(), all_work += layer.work;
  for (const std::vector<Step>& steps : steps_) noise += steps[0].noise;
  first_noise_ = noise;
  std::vector<size_t> at(steps_.size(), 0);
  for (;;) {
    double best = -1, best_price = 0;
    Lift lift;
    for (size_t i = 0; i < steps_.size(); ++i)
      for (size_t k = at[i] + 1; k < steps_[i].size(); ++k) {
        const Layer& layer = workshop_.layers()[i];
        const Step &from = steps_[i][at[i]], &to = steps_[i][k];
        const double room = (to.bits - from.bits) / 32 * layer.weights_count() / all_weights;
        const double price = kEachLayer / static_cast<double>(steps_.size()) + room +
                             kTimeInRoom * (to.time - from.time) * layer.work / all_work;
        const double worth = std::max(0.0, from.noise - to.noise) / std::max(price, 1e-12);
        if (worth > best) best = worth, best_price = price, lift.layer = i, lift.step = k;
      }
    if (best < 0) break;
    const std::vector<Step>& steps = steps_[lift.layer];
    noise += steps[lift.step].noise - steps[at[lift.layer]].noise;
    more_bits += (steps[lift.step].bits - steps[at[lift.layer]].bits) * workshop_.layers()[lift.layer].weights_count();
    at[lift.layer] = lift.step;
    if (more_bits > most_more_bits) break;
    cost += best_price;
    lift.noise = std::max(0.0, noise), lift.cost = cost;
    path_.push_back(lift);
  }
  last_ = path_.size();
}

std::vector<Rung> RungSearch::At(size_t lifts) const {
  std::vector<Rung> rungs;
  for (const std::vector<Step>& steps : steps_) rungs.push_back(steps[0].rung);
  for (size_t i = 0; i < lifts; ++i) rungs[path_[i].layer] = steps_[path_[i].layer][path_[i].step].rung;
  return rungs;
}

std::vector<double> RungSearch::alone() const {
  std::vector<double> alone;
  for (const std::vector<Step>& steps : steps_)
    alone.push_back(steps[0].noise > 0 ? -10 * std::log10(steps[0].noise) : kNoNoise);
  return alone;
}

Trial RungSearch::TryAt(size_t lifts) {
  if (const auto& progress = workshop_.options().progress) progress("searching", ++tries_, 0);
  return workshop_.Try(At(lifts), ranges_, judge_);
}

// Where the noise should be small enough: losses go with it, or with its root.
size_t RungSearch::Guess(const Goal& goal, size_t known, double loss) const {
  if (!std::isfinite(loss) || !(loss > 0) || !(goal.most > 0)) return last_;
  const double part = 0.97 * goal.most / loss;
  const double noise = NoiseAt(known) * (IsOfPower(goal.budget) ? part : part * part);
  for (size_t lifts = 0; lifts < last_; ++lifts)
    if (NoiseAt(lifts) <= noise) return lifts;
  return last_;
}

Trial RungSearch::Run(const Goal& goal, Trial start, size_t least) {
  if (at_end()) return start;
  if (goal.Met(start.found)) {
    if (least == 0) return start;
    return TryAt(at_ = std::min(at_ + least, last_));
  }
  size_t fails = std::min(at_ + std::max<size_t>(least, 1), last_) - 1, holds = last_, nearest = at_, known = at_;
  double loss = goal.Loss(start.found), nearest_loss = least > 0 ? INFINITY : loss;
  Trial best = std::move(start);
  bool held = false;
  for (int turn = 0; holds - fails > (held ? 1u : 0u); ++turn) {
    if (held && CostAt(holds) - CostAt(fails) < kFineEnough) break;
    const size_t highest = held ? holds - 1 : holds, middle = fails + (holds - fails + 1) / 2;
    // Guesses from the latest trial; between two of them that do not close in, the middle.
    const size_t guess = turn < kGuesses && turn % 3 != 2 ? Guess(goal, known, loss) : middle;
    known = std::clamp(guess, fails + 1, highest);
    Trial trial = TryAt(known);
    loss = goal.Loss(trial.found);
    const bool met = goal.Met(trial.found);
    if (met ? true : !held && !(loss > nearest_loss)) {
      best = std::move(trial), nearest = known;
      nearest_loss = loss;
    }
    if (met)
      holds = known, held = true;
    else
      fails = known;
  }
  at_ = nearest;
  return best;
}

}  // namespace ferry::quantize
