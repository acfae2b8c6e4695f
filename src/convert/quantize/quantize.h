// Models in fewer bits, with what that costs measured on data: eight bits for products and convolutions, weights in
// blocks of four or eight bits, half precision, and mixtures of them chosen layer by layer.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "convert/quantize/budget.h"
#include "convert/quantize/scheme.h"
#include "graph/model.h"

namespace ferry::quantize {

enum class QuantizeForm : uint8_t {
  kInt8,     // static or dynamic, layer by layer, as the data prefers
  kStatic,   // ranges of activations from calibration
  kDynamic,  // ranges of activations from each run
  kWeights,  // weights alone
  kFloat16,  // numbers of half precision
  kBFloat16,
};

struct QuantizeOptions {
  QuantizeForm form = QuantizeForm::kInt8;
  Conventions conventions;
  std::vector<std::string> data;  // .npz files, or folders of them
  std::vector<std::string> test;  // for the proof; empty: every fourth row of the data
  bool keep_rows = true;          // for the proof; else all data chooses, and proves
  RangeMethod ranges = RangeMethod::kBest;
  double percentile = 99.999;
  int bits = 8;        // of kWeights
  int64_t block = 32;  // of kWeights along the depth; 0: one scale for each output channel
  WeightMethod weights = WeightMethod::kBest;
  bool standard_blocks = false;        // blocked DequantizeLinear where MatMulNBits would do
  bool qoperator = false;              // QLinearConv and QLinearMatMul instead of QuantizeLinear and DequantizeLinear
  std::vector<std::string> keep;       // nodes, by name or output, that stay as they are
  std::vector<std::string> operators;  // only these; empty: all that can be
  std::vector<std::string> nodes;      // only these, by name or output; empty: all that can be
  std::optional<QuantizeBudget> budget;
  double least_snr = 24;  // dB, without a budget: below it answers are no longer those of the model, and layers lifted
  bool smallest = false;  // with a budget: weights of 4 bits instead, where they hold it, save room and take no longer
  size_t most_bytes = 0;  // with a budget: what would be larger is given up; 0: any size
  bool half_inputs = false;  // kFloat16: inputs and outputs of the model too
  bool methods = true;       // correct biases, equalise and smooth where the data shows a gain
  int threads = 0;
  std::function<void(const char* what, int64_t done, int64_t total)> progress;
};

// By a name of 'ferry quantize --form', some of which say the bits as well: "int8", "weights4", "fp16" …
void SetForm(QuantizeOptions& options, const std::string& name, std::optional<int> bits = std::nullopt);
const char* FormName(QuantizeForm form);

// One layer as the report shows it.
struct LayerReport {
  std::string name, op;
  Way way = Way::kFloat;
  std::string why;           // why it is as it is, where it is not the cheapest
  double weight_snr = 0;     // dB of the coded weights; 0: not coded
  double input_snr = 0;      // dB of the coded input; 0: not coded
  double low = 0, high = 0;  // range of the input that was seen
  double coded_low = 0, coded_high = 0;
  double saturated = 0;           // part of the input beyond the range that is coded
  std::vector<double> histogram;  // of the input, 32 bins over [low, high], parts of the whole
  std::optional<double> alone;    // SNR of the answers with only this layer coded, where it was measured
};

struct QuantizeReport {
  std::string form, target, ranges;
  std::vector<LayerReport> layers;
  std::vector<std::string> notes;  // what was left alone and why, what was switched on and what it gave
  std::vector<std::string> warnings;
  int64_t samples = 0, proof_samples = 0;
  bool proof_is_apart = true;                // on rows that were not used to choose
  size_t bytes_before = 0, bytes_after = 0;  // of weights and graph as a file holds them
  double ms_before = 0, ms_after = 0;        // of one run here; 0: not measured
  Faithfulness proof;
  std::optional<QuantizeBudget> budget;
  bool holds = true;                    // the budget, on the proof and with confidence on others
  std::optional<Faithfulness> assured;  // what other samples of this kind keep, 19 times in 20; not of too few rows
  bool is_float = false;                // the budget took every layer back
  std::vector<std::pair<std::string, double>> worst;  // samples whose answers moved most, SNR in dB
};

struct QuantizedModel {
  Model model;
  QuantizeReport report;
};

QuantizedModel QuantizeModel(const Model& model, const QuantizeOptions& options);

std::string ToText(const QuantizeReport& report);
Json ToJson(const QuantizeReport& report);
std::string ToHtml(const QuantizeReport& report);

}  // namespace ferry::quantize
