// One pass over samples that sees the values which layers read.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "convert/quantize/ranges.h"
#include "convert/quantize/samples.h"
#include "convert/quantize/scheme.h"

namespace ferry::quantize {

using Observations = std::map<std::string, Observation>;

struct CalibrationRequest {
  const Model* model = nullptr;  // of the newest opset
  std::map<std::string, int64_t>
      channels;                    // values to look at, with the axis of their channels (-1: the last, -2: none)
  std::set<std::string> products;  // those whose products of channels are wanted (the last axis)
  bool as_optimized = false;       // try first what the engine makes of the model: faster, fewer values
  int threads = 0;
  std::function<void(const char* what, int64_t done, int64_t total)> progress;
};

struct Calibration {
  Observations seen;
  std::map<std::string, std::vector<double>> products;  // channels × channels, means
};

Calibration Calibrate(const CalibrationRequest& request, const Samples& samples, const std::vector<size_t>& chosen);

// Multiply-adds of these layers on inputs of these shapes.
double WorkOf(const Graph& graph, std::vector<Layer>& layers, const std::vector<NamedValue>& inputs);

}  // namespace ferry::quantize
