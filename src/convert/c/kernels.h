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

extern const std::vector<KernelEntry> elementwise_kernels, reduction_kernels, product_kernels, convolution_kernels,
    pool_kernels, normalization_kernels, movement_kernels, indexing_kernels, quantized_kernels, quantize_kernels,
    recurrent_kernels, attention_kernels, signal_kernels, image_kernels, loss_kernels, ml_kernels;

}  // namespace ferry::c
