// Kernels with their weights made ready. Each maker answers null when the node is not of its kind.
#pragma once

#include "engine/provider.h"

namespace ferry {

class Tuner;

// What the user has to say about the choice of kernels.
struct KernelPolicy {
  bool exact = false;      // only algorithms that add up products as the operator's text does: no Winograd
  Tuner* tuner = nullptr;  // times what fits; null: a model of the costs decides
  Precision precision = Precision::kFloat32;
};

struct CpuKernelRequest : KernelRequest {
  const KernelPolicy& policy;
};

class CpuKernel : public Kernel {
 public:
  // The algorithm, as 'ferry info --plan' shows it.
  virtual std::string name() const = 0;
  // Whether it is the operator's own compute. Where Operator::reads_anywhere says so, all others take elements that
  // begin at any byte, as they do in a file.
  virtual bool IsPortable() const { return false; }
  // Whether the rows of an input, or of output 0, may lie apart. Those of a kernel that knows of none never do.
  virtual bool ReadsStrided(size_t /*input*/) const { return false; }
  virtual bool WritesStrided() const { return false; }
  // Whether it reads a constant input as WeightCache::DeferredTensor alone, once that is packed.
  virtual bool Packs(size_t /*input*/) const { return false; }
};

// Null when the input is computed, or omitted.
inline const Tensor* ConstantOf(const KernelRequest& request, size_t input) {
  const ValueFacts* facts = input < request.inputs.size() ? request.inputs[input] : nullptr;
  return facts && facts->constant ? &*facts->constant : nullptr;
}

std::unique_ptr<CpuKernel> MakeMatMulKernel(const CpuKernelRequest& request);
// MatMulNBits and BlockedMatMul: weights of 4 or 8 bits.
std::unique_ptr<CpuKernel> MakeNbitsMatMulKernel(const CpuKernelRequest& request);
// MatMulInteger, DynamicMatMul and QuantizedMatMul.
std::unique_ptr<CpuKernel> MakeIntegerProductKernel(const CpuKernelRequest& request);
std::unique_ptr<CpuKernel> MakeQuantizedConvKernel(const CpuKernelRequest& request);
// Between floats and bytes.
std::unique_ptr<CpuKernel> MakeQuantizeKernel(const CpuKernelRequest& request);
// Softmax and normalisations.
std::unique_ptr<CpuKernel> MakeRowKernel(const CpuKernelRequest& request);
std::unique_ptr<CpuKernel> MakeConvKernel(const CpuKernelRequest& request);
std::unique_ptr<CpuKernel> MakeConvTransposeKernel(const CpuKernelRequest& request);
std::unique_ptr<CpuKernel> MakeLstmKernel(const CpuKernelRequest& request);
std::unique_ptr<CpuKernel> MakeConcatKernel(const CpuKernelRequest& request);
// Pools and channel-wise factors of channels-last images.
std::unique_ptr<CpuKernel> MakeNhwcKernel(const CpuKernelRequest& request);
// Functions of one float.
std::unique_ptr<CpuKernel> MakeFloatMapKernel(const CpuKernelRequest& request);
// Arithmetic and reductions.
std::unique_ptr<CpuKernel> MakeElementwiseKernel(const CpuKernelRequest& request);

}  // namespace ferry
