// Ways to compute a convolution of bytes over channels-last images.
#pragma once

#include "ops/support/nhwc.h"
#include "providers/cpu/int8_product.h"

namespace ferry {

struct QuantizedConvCall {
  OpContext& context;
  const uint8_t* x;
  void* y;
};

class QuantizedConvAlgorithm {
 public:
  QuantizedConvAlgorithm(const NhwcConvPlan& plan, Int8Finish finish) : plan_(plan), finish_(std::move(finish)) {}
  virtual ~QuantizedConvAlgorithm() = default;
  virtual void Run(const QuantizedConvCall& call) const = 0;
  virtual std::string_view name() const = 0;
  const NhwcConvPlan& plan() const { return plan_; }
  DType y_type() const { return finish_.step().y_type; }

 protected:
  const NhwcConvPlan plan_;
  const Int8Finish finish_;
};

// The size of the tiles with which Winograd's algorithm pays for this convolution, 0: it does not.
int64_t QuantizedWinogradOutputs(const NhwcConvPlan& plan, const Tensor& weight);
std::unique_ptr<QuantizedConvAlgorithm> MakeQuantizedWinograd(const NhwcConvPlan& plan, const Tensor& weight,
                                                              int64_t outputs, WeightCache& cache, Int8Finish finish);

// Up to four planes of bytes become pixels of four; those of missing planes are 0.
void JoinPlanes(const uint8_t* planes, int64_t plane_stride, int64_t channels, int64_t pixels, uint8_t flip,
                uint8_t* to);

// Windows multiplied where they are, without a copy of each: where kernels can, for one group and two axes.
bool FitsQuantizedRuns(const NhwcConvPlan& plan);
std::unique_ptr<QuantizedConvAlgorithm> MakeQuantizedRuns(const NhwcConvPlan& plan, const Tensor& weight,
                                                          WeightCache& cache, Int8Finish finish);

}  // namespace ferry
