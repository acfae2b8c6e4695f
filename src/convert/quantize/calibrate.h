// One pass over samples that sees the values which layers read.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "convert/quantize/ranges.h"
#include "convert/quantize/samples.h"
#include "convert/quantize/scheme.h"

namespace ferry::quantize {

using Observations = std::map<std::string, Observation>;

// What a convolution multiplies at once, to be seen at some places of each sample.
struct Patches {
  std::string key;  // under which their products are kept
  int64_t depth = 0;
  std::vector<int64_t> kernel, strides, dilations, pads;  // pads: before, then behind
};

struct CalibrationRequest {
  const Model* model = nullptr;  // of the newest opset
  std::map<std::string, int64_t>
      channels;                    // values to look at, with the axis of their channels (-1: the last, -2: none)
  std::set<std::string> products;  // those whose products of channels are wanted (the last axis)
  std::map<std::string, std::vector<Patches>> patches;  // by the value that convolutions read
  bool as_optimized = false;  // try first what the engine makes of the model: faster, fewer values
  int threads = 0;
  std::function<void(const char* what, int64_t done, int64_t total)> progress;
};

struct Calibration {
  Observations seen;
  std::map<std::string, std::vector<double>> products;  // channels × channels, means
};

Calibration Calibrate(const CalibrationRequest& request, const Samples& samples, const std::vector<size_t>& chosen);

// Null when the layer is no plain convolution along one or two axes.
std::optional<Patches> PatchesOf(const Graph& graph, const Layer& layer);

// Multiply-adds of these layers on inputs of these shapes.
double WorkOf(const Graph& graph, std::vector<Layer>& layers, const std::vector<NamedValue>& inputs);

}  // namespace ferry::quantize
