// Which layers must stay in higher precision for a budget to hold.
#pragma once

#include "convert/quantize/workshop.h"

namespace ferry::quantize {

// One layer on the way from its cheapest rung to float.
struct Step {
  Rung rung;
  double noise = 0;  // over signal in the answers, when only this layer is coded
  double bits = 0;   // of its weights
  double time = 0;   // of float, where float takes its part of all products
};

// What each layer costs alone, at each rung from the one that it has: what lies before it is float and was run once,
// so that each run starts at the layer (`remember`), or at the model's inputs where that takes too much memory.
std::vector<std::vector<Step>> MeasureAlone(Workshop& workshop, const Judge& judge, RangeMethod ranges,
                                            const std::vector<Rung>& rungs, bool remember = true);

// Layers are lifted in the order in which that is worth the room and time; how far, the answers tell.
class RungSearch {
 public:
  // `most_more_bits` than now: what takes more is not looked at.
  RungSearch(Workshop& workshop, const Judge& judge, RangeMethod ranges, const std::vector<Rung>& rungs,
             double most_more_bits);

  // Goes on from where it stands, whose trial is `start`, as far as the goal takes and by at least so many lifts, where
  // there are as many. The trial that holds, or the nearest.
  Trial Run(const Goal& goal, Trial start, size_t least = 0);

  std::vector<Rung> rungs() const { return At(at_); }
  bool at_end() const { return at_ == last_; }
  std::vector<double> alone() const;  // SNR of each layer by itself at its first rung

 private:
  struct Lift {
    size_t layer = 0, step = 0;
    double noise = 0, cost = 0;  // of all layers behind it
  };
  void FindPath(double most_more_bits);
  std::vector<Rung> At(size_t lifts) const;
  double NoiseAt(size_t lifts) const { return lifts == 0 ? first_noise_ : path_[lifts - 1].noise; }
  double CostAt(size_t lifts) const { return lifts == 0 ? 0 : path_[lifts - 1].cost; }
  size_t Guess(const Goal& goal, size_t known, double loss) const;
  Trial TryAt(size_t lifts);

  Workshop& workshop_;
  const Judge& judge_;
  const RangeMethod ranges_;
  std::vector<std::vector<Step>> steps_;  // by layer
  std::vector<Lift> path_;
  double first_noise_ = 0;
  size_t at_ = 0, last_ = 0;
  int64_t tries_ = 0;
};

}  // namespace ferry::quantize
