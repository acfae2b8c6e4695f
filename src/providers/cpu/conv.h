// Ways to compute a convolution over channels-last images, each with its weights made ready.
#pragma once

#include "kernels/activation.h"
#include "ops/support/nhwc.h"
#include "providers/cpu/kernels.h"

namespace ferry {

struct ConvCall {
  OpContext& context;
  const NhwcConvPlan& plan;
  const float* x;
  const float* bias;      // null: none
  const float* residual;  // null: none; may be the same memory as y
  float* y;
  Activation activation;
  int64_t x_stride, y_stride;  // from pixel to pixel: at least as many as channels, or features
  InputScaling scaling = {};

  int threads() const { return context.services().pool ? context.services().pool->threads() : 1; }
};

class ConvAlgorithm {
 public:
  virtual ~ConvAlgorithm() = default;
  // The call's plan is the one the algorithm was made for.
  virtual void Run(const ConvCall& call) const = 0;
  // Whether pixels may lie further apart than they have channels.
  virtual bool ReadsStrided() const { return false; }
  virtual bool WritesStrided() const { return false; }
  // See CpuKernel::Packs; of its weights.
  virtual bool Packs() const { return false; }
  // Whether it scales its input itself.
  virtual bool Scales() const { return false; }
};

// The same call with its input scaled already, in memory of this thread.
ConvCall ScaledFirst(const ConvCall& call);

// Weights are [features, channels / groups, kernel…] as Conv has them.
std::unique_ptr<ConvAlgorithm> MakeGemmConv(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache);
// The same with weights kept as bfloat16.
std::unique_ptr<ConvAlgorithm> MakeBf16GemmConv(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache);
bool FitsBf16Gemm(const NhwcConvPlan& plan);
std::unique_ptr<ConvAlgorithm> MakeDepthwiseConv(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache);
std::unique_ptr<ConvAlgorithm> MakeGroupedConv(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache);
bool FitsGrouped(const NhwcConvPlan& plan);
// Of an image with its channels first.
std::unique_ptr<ConvAlgorithm> MakePlanarConv(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache);
bool FitsPlanar(const NhwcConvPlan& plan);
// `outputs` is 2 or 4: the size of a tile.
std::unique_ptr<ConvAlgorithm> MakeWinogradConv(const Tensor& weight, const NhwcConvPlan& plan, int outputs,
                                                WeightCache& cache);
bool FitsWinograd(const NhwcConvPlan& plan);

// How many blocks of at most `most` tiles to cut, as many for each thread where there are enough.
inline int64_t EvenBlocks(int64_t tiles, int64_t most, int64_t threads) {
  int64_t blocks = (tiles + most - 1) / most, even = (blocks + threads - 1) / threads * threads;
  return blocks > 1 && even <= tiles ? even : blocks;
}

}  // namespace ferry
