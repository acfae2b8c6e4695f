// Operators on the device: for each node either a kernel or nothing, and then the next provider is asked.
#pragma once

#include <functional>
#include <optional>

#include "engine/provider.h"
#include "kernels/activation.h"
#include "providers/cuda/chain.h"
#include "providers/cuda/device.h"

namespace ferry::cuda {

struct Settings {
  const Device* device = nullptr;   // null: only plans are made
  bool tf32 = false;                // products of float32 may round their operands to 10 bits
  DType lower = DType::kUndefined;  // the type that float32 is computed in; undefined: its own
};

struct OperatorRequest {
  const KernelRequest& request;
  const Settings& settings;

  const Node& node() const { return request.node; }
  bool Has(size_t i) const { return request.node.HasInput(i); }
  DType TypeOf(size_t i) const;  // of input i; kUndefined when it is not known
  DType ResultType(size_t i = 0) const;
  std::optional<Shape> ShapeOf(size_t i) const;  // of input i, when every size is known
  std::optional<Shape> ResultShape(size_t i = 0) const;
  const Tensor* Constant(size_t i) const;  // input i, when it is known beforehand; on the host
  bool WantsOnly(size_t outputs) const;    // nobody asks for outputs from this one on
  bool Is(std::string_view op) const;      // of the standard
  bool IsInternal(std::string_view op) const;
};

using RunOnDevice = std::function<void(const Device& device, OpContext& context)>;
ChosenKernel OnDevice(const OperatorRequest& request, std::string name, RunOnDevice run, uint32_t reads_on_host = 0,
                      uint32_t reads_anywhere = 0);
inline constexpr uint32_t InputBit(size_t i) { return i < 32 ? uint32_t{1} << i : 0; }

// Adds what the activation does to `value`. `rounds`: fewer bits of a float32 count, as where operands were TF32.
int AddActivation(Chain& chain, int value, const Activation& activation, bool rounds = false);

std::optional<ChosenKernel> ChooseElementwise(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseProduct(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseMove(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseRows(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseImage(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseAttention(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseLayout(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseIndex(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseRecurrent(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseChannels(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseQuantized(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseByteStep(const OperatorRequest& request);
std::optional<ChosenKernel> ChooseOperator(const OperatorRequest& request);
// A few integers are sizes and indices: the host works them out, and whoever reads them does so there.
bool IsArithmeticOnShapes(const OperatorRequest& request);

// Whether a node can be part of a chain, by the types of its inputs and its output.
bool IsChainable(const Node& node, std::span<const ValueFacts* const> inputs, const ValueFacts* output);

}  // namespace ferry::cuda
