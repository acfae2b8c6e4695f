// PyTorch programs to ONNX models.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"
#include "torch/archive.h"
#include "torch/dynamic_axes.h"
#include "torch/lower/call.h"
#include "torch/program.h"

namespace ferry::torch {

inline constexpr int kOldestOpset = 11, kDefaultOpset = 20;

// The type of an input of a TorchScript program, whose text does not say it.
struct InputType {
  std::string name;
  DType dtype = DType::kFloat;
  SymbolicShape shape;
};

struct ExportOptions {
  using Samples = std::vector<std::pair<std::string, Tensor>>;  // by an input's name, or in0, in1 …

  int opset = kDefaultOpset;
  std::vector<std::string> input_names, output_names;  // in order; fewer names leave the rest as they are
  std::vector<DynamicAxis> dynamic;
  bool fold = true;         // compute at export what depends on weights only
  bool keep_trace = false;  // say in each node's metadata where in the Python source it came from
  LowerOptions::Training training = LowerOptions::Training::kRefuse;
  bool is_python = false;              // whoever asks does so in Python: messages speak of arguments, not of options
  std::vector<InputType> input_types;  // for TorchScript
  std::vector<Samples> samples;        // recordings to take types from that input_types does not have
};

struct Exported {
  Model model;
  std::vector<std::string> warnings;
  std::vector<std::pair<std::string, Tensor>> sample_inputs;  // by input name, when the archive has them
};

// The model is at the newest opset, but uses only operators and types that options.opset has: convert/export_model.h
// brings it there. Throws kUnsupported naming the operator, the node and its module when something has no export.
Exported ExportProgram(const ExportedProgram& program, const ExportOptions& options = {});
// A .pt2 archive or a TorchScript archive.
Exported ExportArchive(Archive& archive, const ExportOptions& options = {});
Exported ExportFile(const std::string& path, const ExportOptions& options = {});

}  // namespace ferry::torch
