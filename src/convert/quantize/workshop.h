// One model on its way to fewer bits: its layers, what calibration saw, and trials of schemes.
#pragma once

#include <memory>
#include <tuple>
#include <vector>

#include "base/thread_pool.h"
#include "convert/quantize/calibrate.h"
#include "convert/quantize/code_matrix.h"
#include "convert/quantize/measure.h"
#include "convert/quantize/quantize.h"

namespace ferry::quantize {

// How one layer is to be coded: a rung of the ladder from the cheapest to float.
struct Rung {
  Way way = Way::kFloat;
  int bits = 8;
  int64_t block = 0;
  bool operator==(const Rung&) const = default;
};

struct Trial {
  Scheme scheme;
  Model model;
  std::shared_ptr<Session> session;
  Faithfulness found;
};

// The float model that everything starts from: newest opset, constants and batch norms folded.
Model MakeBase(const Model& model);

class Workshop {
 public:
  Workshop(Model base, int64_t opset, const QuantizeOptions& options);

  // Sees what layers read, on samples of the data. Without data nothing is known.
  void Calibrate(const Samples& samples, const std::vector<size_t>& chosen, bool with_products);

  const Model& base() const { return base_; }
  int64_t opset() const { return opset_; }
  std::vector<Layer>& layers() { return layers_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const Observations& seen() const { return calibration_.seen; }
  const Observation* Seen(const Layer& layer) const;
  bool IsKept(const Layer& layer) const;  // the user wants it as it is

  // The cheapest rung that the form, the reader and the data allow, with the reason where it is not the usual one.
  Rung FirstRung(const Layer& layer, std::string& why) const;
  Rung NextRung(const Layer& layer, const Rung& rung) const;

  // Codes of weights one after the other, so that later ones make up for earlier ones, where products were seen.
  void SetSpreading(bool on);
  bool can_spread() const { return !calibration_.products.empty(); }

  Scheme MakeScheme(const std::vector<Rung>& rungs, RangeMethod ranges);
  Model Write(const Scheme& scheme) const;
  double WeightSnr(const Scheme& scheme, size_t layer) const;  // dB of the coded weights, by what they meet
  Trial Try(const std::vector<Rung>& rungs, RangeMethod ranges, const Judge& judge);

  const QuantizeOptions& options() const { return options_; }
  double work() const { return work_; }  // multiply-adds of one sample
  void set_work(double work) { work_ = work; }

 private:
  LayerScheme CodeLayer(const Layer& layer, const Rung& rung);
  double TotalWork() const;
  double TotalWeights() const;
  std::vector<float> Importance(const Layer& layer) const;
  std::vector<float> CorrectedBias(const Layer& layer, const CodedMatrix& matrix, std::span<const float> weights) const;
  CodingRequest RequestFor(const Layer& layer, const Rung& rung) const;

  Model base_;
  int64_t opset_;
  const QuantizeOptions& options_;
  std::vector<Layer> layers_;
  Calibration calibration_;
  ThreadPool pool_;
  double work_ = 0;
  bool spreads_;
  std::map<std::tuple<size_t, int, int64_t, bool>, LayerScheme> coded_;  // by layer, bits, block, for weights alone
};

}  // namespace ferry::quantize
