// Chains of elementwise operators (arithmetic, activations, comparisons, casts, with their broadcasting) as one
// generated kernel: every value between them stays in a register.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/model.h"
#include "providers/cuda/launch.h"
#include "tensor/tensor.h"

namespace ferry::cuda {

// The name of an element type in kernel sources; null for types that kernels do not know.
const char* TypeName(DType type);
// The type in which elements are computed: float for the small floats.
const char* ComputeTypeName(DType type);

class Chain {
 public:
  // Values are numbered in the order they are added: inputs, constants and steps alike.
  int AddInput(DType type);
  int AddConstant(const Tensor& scalar);  // of one element, on the host: becomes part of the source
  // Nothing when the operator, or these types of its inputs, cannot be part of a chain. `arguments`: -1 is an omitted
  // input. `type`: of output 0.
  std::optional<int> AddStep(const Node& node, std::span<const int> arguments, DType type);
  void AddOutput(int value) { outputs_.push_back(value); }

  DType type(int value) const { return values_[static_cast<size_t>(value)].type; }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  DType output_type(size_t i) const { return type(outputs_[i]); }

  // How an input is read along the axes of the output, neighbouring axes taken together where all inputs allow it.
  struct Form {
    int width = 1;                              // elements of the last axis that a thread takes at once
    bool wide_indices = false;                  // more elements than 32 bits count
    std::vector<int64_t> dims;                  // of the output, in groups of `width` along the last axis
    std::vector<std::vector<int64_t>> strides;  // of each input, per group; empty: read as the output is written
    std::vector<bool> repeats;                  // each input: one element serves a whole group
  };
  // For inputs of these shapes at these addresses. Shapes broadcast to `output`.
  Form FormFor(std::span<const Shape> inputs, std::span<const uintptr_t> addresses, const Shape& output) const;
  KernelSource Source(const Form& form) const;

  // Inputs and outputs on the device; every output has the shape that the inputs broadcast to.
  void Run(const Device& device, std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs) const;

 private:
  struct Value {
    DType type;
    std::string text;  // how it is computed; empty for inputs
    bool is_constant = false;
    double constant = 0;
  };
  // What the last calls came to, by shapes and by how addresses are aligned.
  struct Ready {
    std::vector<int64_t> key;
    Function function;
    std::vector<int64_t> places;
    std::vector<uint32_t> narrow;
    bool wide_indices;
  };
  struct ReadyList {
    std::mutex mutex;
    std::vector<std::shared_ptr<const Ready>> calls;
  };
  std::shared_ptr<const Ready> ReadyFor(const Device& device, std::span<const Tensor* const> inputs,
                                        std::span<Tensor* const> outputs) const;
  int Add(Value value);

  std::vector<Value> values_;
  std::vector<int> inputs_, outputs_;
  std::shared_ptr<ReadyList> ready_ = std::make_shared<ReadyList>();
};

}  // namespace ferry::cuda
