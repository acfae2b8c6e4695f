// What the families of kernels share.
#pragma once

#include <string>
#include <vector>

#include "convert/c/step_writer.h"
#include "kernels/activation.h"

namespace ferry::c {

// A float in a variable under an activation of the fused operators.
std::string ActivationText(StepWriter& w, const Activation& activation, const std::string& x);
// The element in a variable under an operator of one or two; empty where the type does not allow it.
std::string UnaryText(const StepWriter& w, const std::string& op, const std::string& x, DType type);
std::string BinaryText(StepWriter& w, const std::string& op, const std::string& a, const std::string& b, DType type);

const std::vector<KernelEntry>& ElementwiseKernels();
const std::vector<KernelEntry>& ReductionKernels();
const std::vector<KernelEntry>& ProductKernels();
const std::vector<KernelEntry>& ConvolutionKernels();
const std::vector<KernelEntry>& PoolKernels();
const std::vector<KernelEntry>& NormalizationKernels();
const std::vector<KernelEntry>& MovementKernels();
const std::vector<KernelEntry>& IndexingKernels();
const std::vector<KernelEntry>& QuantizedKernels();
const std::vector<KernelEntry>& QuantizeKernels();
const std::vector<KernelEntry>& RecurrentKernels();
const std::vector<KernelEntry>& AttentionKernels();
const std::vector<KernelEntry>& SignalKernels();
const std::vector<KernelEntry>& NhwcKernels();
const std::vector<KernelEntry>& LossKernels();
const std::vector<KernelEntry>& RandomKernels();
const std::vector<KernelEntry>& LinearAttentionKernels();
const std::vector<KernelEntry>& SamplingKernels();
const std::vector<KernelEntry>& ClassicKernels();
const std::vector<KernelEntry>& BlockedKernels();

}  // namespace ferry::c
