// What is in a model: its size, its operators, what it costs to run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"

namespace ferry {

// A node as it runs: of the newest opset, functions written out.
struct LayerInfo {
  std::string name, op;
  std::vector<std::string> inputs;  // without weights and omitted ones; what bodies read from around them included
  std::vector<ValueInfo> outputs;   // with shapes in names of dimensions
  int64_t parameters = 0;           // floating-point weights that no earlier layer reads
  std::optional<double> multiply_adds;
  std::optional<int64_t> output_bytes;
};

struct OperatorCost {
  std::string op;
  int64_t nodes = 0;
  int64_t parameters = 0;
  std::optional<double> multiply_adds = 0;
  std::optional<int64_t> output_bytes = 0;
};

struct ModelSummary {
  std::vector<ValueInfo> inputs;   // without those that an initializer gives
  std::vector<ValueInfo> outputs;  // with shapes from inference where the model leaves them open
  std::vector<std::pair<std::string, int64_t>> operators;  // the most frequent first; bodies and functions included
  int64_t nodes = 0;
  int64_t parameters = 0;                        // elements of all floating-point initializers and constants
  int64_t parameter_bytes = 0;                   // of all initializers
  std::map<int64_t, int64_t> quantized_weights;  // how many there are of each number of bits

  // For the dimensions given; each is open when something that decides it is not known.
  std::map<std::string, int64_t> dimensions;  // every named dimension of the inputs and the size taken for it
  std::optional<int64_t> activation_bytes;    // one run's memory beside the weights
  std::optional<double> multiply_adds;
  std::string unknown_because;  // why the two above are open

  // Nodes of the main graph in the order they run; empty when the model can't be prepared.
  std::vector<LayerInfo> layers;
};

// Works on models that can't run as well; what needs inference is then left open.
ModelSummary Summarize(const Model& model, const std::map<std::string, int64_t>& dimensions);

// The layers of each operator together, the one with most multiply-adds first.
std::vector<OperatorCost> CostByOperator(const std::vector<LayerInfo>& layers);

}  // namespace ferry
