// HannWindow, HammingWindow and BlackmanWindow: sums of cosines over one period.
#include <cmath>

#include "ops/operator.h"
#include "ops/support/scalar.h"

namespace ferry {
namespace {

// Σ sign·coefficient·cos(2πjn/N), signs alternating; N is the size, or one less for a symmetric window.
void ComputeWindow(OpContext& context, std::span<const double> coefficients) {
  int64_t size = ScalarInt(context.Input(0), "size");
  constexpr int64_t kLongest = int64_t{1} << 26;
  Require(size >= 0, "the size of a window must not be negative, is ", size);
  if (size > kLongest)
    Fail(ErrorCode::kLimit, "a window of ", size, " samples is too long; ", kLongest, " are possible");
  bool periodic = context.node().Int("periodic", 1) != 0;
  Tensor& y = context.Output(0, NumericTypeAttribute(context.node(), "output_datatype"), {size});
  std::vector<double> values(static_cast<size_t>(size));
  constexpr double kTwoPi = 6.28318530717958647693;
  double period = static_cast<double>(periodic ? size : size - 1);
  for (int64_t n = 0; n < size; ++n) {
    double value = 0, sign = 1;
    for (size_t j = 0; j < coefficients.size(); ++j, sign = -sign) {
      value += sign * coefficients[j] * std::cos(kTwoPi * static_cast<double>(j) * static_cast<double>(n) / period);
    }
    // A symmetric window of one sample has no period; it is its own peak.
    values[static_cast<size_t>(n)] = period > 0 ? value : 1.0;
  }
  StoreDoubles(values, y);
}

void ComputeHannWindow(OpContext& context) {
  static constexpr double kCoefficients[] = {0.5, 0.5};
  ComputeWindow(context, kCoefficients);
}
void ComputeHammingWindow(OpContext& context) {
  static constexpr double kCoefficients[] = {25.0 / 46.0, 21.0 / 46.0};
  ComputeWindow(context, kCoefficients);
}
void ComputeBlackmanWindow(OpContext& context) {
  static constexpr double kCoefficients[] = {0.42, 0.5, 0.08};
  ComputeWindow(context, kCoefficients);
}

void InferWindow(InferContext& context) {
  context.SetOutput(0, NumericTypeAttribute(context.node(), "output_datatype"), {KnownScalar(context, 0)});
}

}  // namespace

FERRY_OPERATOR(HannWindow, {.compute = ComputeHannWindow, .infer = InferWindow});
FERRY_OPERATOR(HammingWindow, {.compute = ComputeHammingWindow, .infer = InferWindow});
FERRY_OPERATOR(BlackmanWindow, {.compute = ComputeBlackmanWindow, .infer = InferWindow});

}  // namespace ferry
