// Kernels with their weights made ready. Each maker answers null when the node is not of its kind.
#pragma once

#include "engine/provider.h"

namespace ferry {

std::unique_ptr<Kernel> MakeMatMulKernel(const KernelRequest& request);
// MatMulInteger, DynamicMatMul and QuantizedMatMul.
std::unique_ptr<Kernel> MakeIntegerProductKernel(const KernelRequest& request);
std::unique_ptr<Kernel> MakeQuantizedConvKernel(const KernelRequest& request);
// Between floats and bytes.
std::unique_ptr<Kernel> MakeQuantizeKernel(const KernelRequest& request);
// Softmax, normalisations and functions of one float.
std::unique_ptr<Kernel> MakeRowKernel(const KernelRequest& request);
std::unique_ptr<Kernel> MakeConvKernel(const KernelRequest& request);
std::unique_ptr<Kernel> MakeConvTransposeKernel(const KernelRequest& request);
std::unique_ptr<Kernel> MakeLstmKernel(const KernelRequest& request);
std::unique_ptr<Kernel> MakeConcatKernel(const KernelRequest& request);
// Pools and channel-wise factors of channels-last images.
std::unique_ptr<Kernel> MakeImageKernel(const KernelRequest& request);
// Arithmetic, functions of one float and reductions.
std::unique_ptr<Kernel> MakeElementwiseKernel(const KernelRequest& request);

}  // namespace ferry
