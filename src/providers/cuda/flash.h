// Attention in one kernel on tensor cores: scores stay in registers, softmax is taken along the way, and operands are
// read wherever their strides say.
#pragma once

#include <cstdint>

#include "providers/cuda/launch.h"
#include "tensor/dtype.h"

namespace ferry::cuda {

struct FlashProblem {
  DType dtype = DType::kFloat;  // float is multiplied as TF32
  int64_t batch = 1, heads = 1, sharing = 1;
  int64_t queries = 0, keys = 0, depth = 0, values = 0;
  // Elements between images, heads, rows and columns; columns of q, v and the result lie side by side.
  int64_t q[3] = {}, k[4] = {}, v[3] = {}, out[3] = {};
  bool has_mask = false;
  DType mask_type = DType::kFloat;
  int64_t mask[4] = {};
  int64_t mask_images = INT32_MAX;  // after so many images the mask begins again
  float scale = 1;
  bool nan_to_zero = false;
};

struct FlashOperands {
  const std::byte *q = nullptr, *k = nullptr, *v = nullptr, *mask = nullptr;
  std::byte* out = nullptr;
};

// By sizes and strides; addresses must be multiples of 16 bytes. `compute_major`: of the device.
bool CanFlash(const FlashProblem& problem, int compute_major);
void Flash(const Device& device, const FlashProblem& problem, const FlashOperands& operands);

KernelSource FlashSource(const FlashProblem& problem, int warps);
std::vector<KernelSource> FlashSources();

}  // namespace ferry::cuda
