#include <cmath>

#include "ops/operator.h"
#include "ops/support/scalar.h"

namespace ferry {
namespace {

double HertzToMel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double MelToHertz(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

// The spectrogram bins of the corners of the triangles, evenly spaced in mel: each triangle rises from corner i to i+1
// and falls to i+2.
std::vector<int64_t> Corners(int64_t triangles, int64_t dft_length, int64_t sample_rate, double lower, double upper) {
  double low_mel = HertzToMel(lower), step = (HertzToMel(upper) - low_mel) / static_cast<double>(triangles + 2);
  std::vector<int64_t> corners;
  for (int64_t i = 0; i < triangles + 2; ++i) {
    double hertz = MelToHertz(low_mel + step * static_cast<double>(i));
    double bin = std::floor(static_cast<double>(dft_length + 1) * hertz / static_cast<double>(sample_rate));
    Require(bin >= 0 && bin <= static_cast<double>(dft_length / 2), "the band of ", lower, " to ", upper,
            " Hz reaches bin ", bin, " of a spectrum of ", dft_length / 2 + 1, " bins");
    corners.push_back(static_cast<int64_t>(bin));
  }
  return corners;
}

void ComputeMelWeightMatrix(OpContext& context) {
  int64_t triangles = ScalarInt(context.Input(0), "num_mel_bins"),
          dft_length = ScalarInt(context.Input(1), "dft_length"),
          sample_rate = ScalarInt(context.Input(2), "sample_rate");
  double lower = ScalarFloat(context.Input(3), "lower_edge_hertz"),
         upper = ScalarFloat(context.Input(4), "upper_edge_hertz");
  constexpr int64_t kMost = int64_t{1} << 24;
  Require(triangles >= 0 && triangles < kMost, "num_mel_bins must be 0 to ", kMost - 1, ", is ", triangles);
  Require(dft_length >= 1 && dft_length < kMost, "dft_length must be 1 to ", kMost - 1, ", is ", dft_length);
  Require(sample_rate >= 1, "sample_rate must be positive, is ", sample_rate);
  Require(lower >= 0 && upper >= lower && std::isfinite(upper), "the band must satisfy 0 <= lower <= upper, is ", lower,
          " to ", upper);
  int64_t bins = dft_length / 2 + 1;
  Tensor& y = context.Output(0, NumericTypeAttribute(context.node(), "output_datatype"), {bins, triangles});
  std::vector<int64_t> corners = Corners(triangles, dft_length, sample_rate, lower, upper);
  std::vector<double> weights(static_cast<size_t>(y.size()), 0.0);
  auto weight = [&](int64_t bin, int64_t triangle) -> double& {
    return weights[static_cast<size_t>(bin * triangles + triangle)];
  };
  for (int64_t t = 0; t < triangles; ++t) {
    int64_t left = corners[static_cast<size_t>(t)], center = corners[static_cast<size_t>(t) + 1],
            right = corners[static_cast<size_t>(t) + 2];
    for (int64_t bin = left; bin < center; ++bin)
      weight(bin, t) = static_cast<double>(bin - left) / static_cast<double>(center - left);
    weight(center, t) = 1;
    for (int64_t bin = center; bin < right; ++bin)
      weight(bin, t) = static_cast<double>(right - bin) / static_cast<double>(right - center);
  }
  StoreDoubles(weights, y);
}

void InferMelWeightMatrix(InferContext& context) {
  Dim dft_length = KnownScalar(context, 1);
  Dim bins = dft_length.known() ? Dim(*dft_length.value / 2 + 1) : Dim();
  context.SetOutput(0, NumericTypeAttribute(context.node(), "output_datatype"), {bins, KnownScalar(context, 0)});
}

}  // namespace

FERRY_OPERATOR(MelWeightMatrix, {.compute = ComputeMelWeightMatrix, .infer = InferMelWeightMatrix});

}  // namespace ferry
