// Kernels of our own: what moves elements, reduces, normalises, pools and gathers. Tensors lie on the device; kernels
// run on the calling thread's stream. Shapes were checked by whoever calls.
#pragma once

#include <span>
#include <vector>

#include "ops/support/window.h"
#include "providers/cuda/launch.h"
#include "tensor/tensor.h"

namespace ferry::cuda {

// A walk through elements: `dims` with the strides of where they come from and go to.
struct Walk {
  std::vector<int64_t> dims, from, to;
  int64_t from_offset = 0, to_offset = 0;
};
// Copies elements of `bytes` each (1, 2, 4 or 8) from where the walk finds them to where it puts them: transpose,
// slice, expand, concatenation, split, tile.
void CopyWalk(const Device& device, Walk walk, size_t bytes, const std::byte* from, std::byte* to);
bool CanCopy(DType type);

enum class Reduction : uint8_t { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kSumSquare, kLogSum, kLogSumExp };
// Over axes[i] true. Floats, and for Max, Min and Sum integers. y has as many elements as the other axes.
void Reduce(const Device& device, Reduction reduction, const Tensor& x, const std::vector<bool>& axes, Tensor& y);
bool CanReduce(Reduction reduction, DType type);

// Along [outer, count, inner]: of `count` elements that lie `inner` apart.
void Softmax(const Device& device, bool log, int64_t outer, int64_t count, int64_t inner, const Tensor& x, Tensor& y);
// Of bfloat16, rounded after every step.
void RoundedSoftmax(const Device& device, int64_t outer, int64_t count, int64_t inner, const Tensor& x, Tensor& y);
// softmax(x · scale + mask) of rows; `mask` may be null, else row r reads its row `mask_rows[r]`.
struct MaskedSoftmax {
  int64_t rows = 0, count = 0;
  float scale = 1;
  const Tensor* mask = nullptr;
  // The rows of x are [outer0, outer1, inner]; the mask's strides along these and along the elements of a row.
  int64_t outer1 = 1, inner = 1;
  int64_t mask_strides[4] = {0, 0, 0, 0};
  bool nan_to_zero = false;
};
void SoftmaxWithMask(const Device& device, const MaskedSoftmax& how, const Tensor& x, Tensor& y);

// Rows of `count`: (x − mean) / sqrt(variance + epsilon) · scale + bias; not centered: no mean is taken off. `scale`
// and `bias` may be null.
void NormalizeRows(const Device& device, int64_t count, float epsilon, bool centered, const Tensor& x,
                   const Tensor* scale, const Tensor* bias, Tensor& y);

// y[o, j, i] = x[o, indices[j], i] with x as [outer, axis, inner]. Negative indices count from the end; one outside
// makes the next Synchronize throw.
void Gather(const Device& device, const Tensor& x, size_t axis, const Tensor& indices, Tensor& y);

struct Pool {
  bool is_max = true, include_padding = false;
  int64_t batch = 0, channels = 0;
  bool channels_last = false;
  WindowAxis axes[2];  // height and width; one axis: the first is 1
};
void RunPool(const Device& device, const Pool& pool, const Tensor& x, Tensor& y);

// Every source of this room, each complete, for tests that compile them all.
std::vector<KernelSource> AllKernelSources();

}  // namespace ferry::cuda
