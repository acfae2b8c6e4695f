// The first layer that goes wrong: two sides run on one sample, every value that they have in common held against its
// partner, and the node found whose inputs agree and whose outputs do not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/compare/match.h"
#include "measure/compare/side.h"

namespace ferry {

// Where the numbers of a value lie.
struct ValueRange {
  std::string name;
  std::string type;                             // "float[1, 64]"
  double least = 0, largest = 0, mean_abs = 0;  // over finite elements
  int64_t not_finite = 0;
  bool is_weight = false;
  std::optional<double> error;  // against the other side; open when it has no partner
};

// A node of the first side whose result has a partner on the other side.
struct TracedLayer {
  size_t node = 0;  // index in the first side's graph
  std::string name, op, value;
  double error = 0;        // largest difference in relation to the largest element; infinity when it has no number
  double input_error = 0;  // the largest error among what it reads
  std::string mismatch;    // why no number says the error (shape, type)
};

struct FaultyLayer {
  std::string name, op, value;
  std::string other_name, other_op;      // empty when no node of the other side corresponds
  std::vector<std::string> differences;  // what the two nodes say differently
  std::optional<double> own_error;       // its error on the other side's inputs: what it does wrong by itself
  double error = 0, input_error = 0;
  std::vector<ValueRange> inputs;
  ValueRange output, expected;
  std::string mismatch;
};

struct LayerTrace {
  std::string sample;
  std::vector<TracedLayer> layers;  // in the order they run
  std::optional<FaultyLayer> first;
  std::vector<size_t> path;  // places in `layers`, from the faulty one to the output that is furthest off
  size_t nodes = 0;          // of the first side's graph
};

LayerTrace TraceLayers(const Side& actual, const Side& expected, NameTrust trust,
                       const std::vector<NamedValue>& inputs);

}  // namespace ferry
