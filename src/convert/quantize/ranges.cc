#include "convert/quantize/ranges.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ferry::quantize {
namespace {

constexpr float kSmallestScale = 1e-30f;  // below it codes are no numbers any more

struct Extremes {
  float low = INFINITY, high = -INFINITY;
  int64_t not_finite = 0;
};

Extremes FindExtremes(const float* data, int64_t count) {
  Extremes found;
  float low[8], high[8];
  std::fill_n(low, 8, INFINITY), std::fill_n(high, 8, -INFINITY);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int k = 0; k < 8; ++k) {
      low[k] = data[i + k] < low[k] ? data[i + k] : low[k];
      high[k] = data[i + k] > high[k] ? data[i + k] : high[k];
    }
  for (; i < count; ++i) low[0] = std::min(low[0], data[i]), high[0] = std::max(high[0], data[i]);
  found.low = *std::min_element(low, low + 8);
  found.high = *std::max_element(high, high + 8);
  // An exponent of ones is no finite number; told by whole numbers, which vectors compare.
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad[8] = {};
  auto is_bad = [&](int64_t at) {
    uint32_t bits;
    std::memcpy(&bits, data + at, 4);
    return uint32_t{(bits & kExponent) == kExponent};
  };
  for (i = 0; i + 8 <= count; i += 8)
    for (int k = 0; k < 8; ++k) bad[k] |= is_bad(i + k);
  for (; i < count; ++i) bad[0] |= is_bad(i);
  if (std::none_of(bad, bad + 8, [](uint32_t one) { return one != 0; })) return found;
  found = Extremes();
  for (int64_t k = 0; k < count; ++k) {
    if (!std::isfinite(data[k])) {
      ++found.not_finite;
      continue;
    }
    found.low = std::min(found.low, data[k]), found.high = std::max(found.high, data[k]);
  }
  return found;
}

// Of large tensors some elements tell the distribution: no axis may be a multiple of the stride.
int64_t StrideOf(const Tensor& tensor) {
  constexpr int64_t kEnough = 1 << 15;
  if (tensor.size() < kEnough) return 1;
  for (int64_t stride : {5, 7, 3, 11}) {
    bool fits = true;
    for (size_t axis = 0; axis < tensor.rank(); ++axis) fits &= tensor.dim(axis) % stride != 0;
    if (fits) return stride;
  }
  return 1;
}

}  // namespace

Coding MakeCoding(float low, float high, const Conventions& conventions) {
  Coding coding;
  coding.type = conventions.signed_activations ? DType::kInt8 : DType::kUInt8;
  low = std::min(low, 0.0f), high = std::max(high, 0.0f);
  const int32_t least = conventions.signed_activations ? -128 : 0;
  if (conventions.symmetric_activations) {
    coding.zero = conventions.signed_activations ? 0 : 128;
    coding.scale = std::max(-low, high) / 127.0f;
  } else {
    coding.scale = high / 255.0f - low / 255.0f;
    if (coding.scale > kSmallestScale)
      coding.zero = std::clamp(static_cast<int32_t>(std::nearbyint(-low / coding.scale)), 0, 255) + least;
  }
  if (!(coding.scale > kSmallestScale)) coding.scale = 1;
  return coding;
}

void Observation::Widen(float low, float high) {
  if (bins_.empty()) {
    bins_.assign(kBins, 0.0);
    const double span =
        std::max({double(high) - low, std::abs(double(high)) * 1e-3, std::abs(double(low)) * 1e-3, 1e-20});
    bottom_ = low - span * 1e-3;
    width_ = span * 1.002 / kBins;
    return;
  }
  // Two bins become one until everything fits; the new half lies on the side that needs it.
  while (low < bottom_ || high >= bottom_ + width_ * kBins) {
    std::vector<double> wider(kBins, 0.0);
    const bool downward = low < bottom_;
    const int first = downward ? kBins / 2 : 0;
    for (int i = 0; i < kBins; ++i) wider[static_cast<size_t>(first + i / 2)] += bins_[static_cast<size_t>(i)];
    if (downward) bottom_ -= width_ * kBins;
    width_ *= 2;
    bins_ = std::move(wider);
  }
}

void Observation::Add(const Tensor& tensor, int64_t channel_axis) {
  if (tensor.dtype() != DType::kFloat || tensor.size() == 0) return;
  const float* data = tensor.Data<float>();
  const int64_t count = tensor.size();
  const Extremes seen = FindExtremes(data, count);
  not_finite_ += seen.not_finite;
  if (seen.not_finite == count) return;
  Widen(seen.low, seen.high);
  low_ = count_ == 0 ? seen.low : std::min(low_, seen.low);
  high_ = count_ == 0 ? seen.high : std::max(high_, seen.high);
  const double step = (std::max(0.0f, seen.high) - std::min(0.0f, seen.low)) / 255.0;
  dynamic_noise_ += step * step / 12 * static_cast<double>(count);
  const float bottom = static_cast<float>(bottom_), factor = static_cast<float>(1 / width_);
  std::vector<uint32_t> bins(kBins, 0);
  double sum = 0, squares = 0;
  int64_t zeros = 0, looked = 0;
  const int64_t stride = StrideOf(tensor);
  for (int64_t i = 0; i < count; i += stride, ++looked) {
    const float x = data[i];
    const float place = (x - bottom) * factor;
    ++bins[static_cast<size_t>(place > 0 ? (place < kBins - 1 ? static_cast<int>(place) : kBins - 1) : 0)];
    zeros += x == 0;
    sum += x, squares += static_cast<double>(x) * x;
  }
  const double part = static_cast<double>(count) / static_cast<double>(looked);
  for (size_t i = 0; i < bins.size(); ++i) bins_[i] += bins[i] * part;
  count_ += count, zeros_ += static_cast<int64_t>(static_cast<double>(zeros) * part);
  sum_ += sum * part, squares_ += squares * part;
  if (channel_axis >= 0 && channel_axis < static_cast<int64_t>(tensor.rank()))
    AddChannels(tensor, static_cast<size_t>(channel_axis));
}

// Channels side by side, sums of some rows at a time in float.
void Observation::AddRows(const float* data, int64_t rows) {
  constexpr int64_t kRows = 128;
  const size_t channels = channel_sums_.size();
  std::vector<float> sums(channels), squares(channels);
  float* largest = channel_largest_.data();
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    std::fill(sums.begin(), sums.end(), 0.0f), std::fill(squares.begin(), squares.end(), 0.0f);
    for (int64_t row = begin; row < std::min(rows, begin + kRows); ++row, data += channels)
      for (size_t c = 0; c < channels; ++c) {
        const float x = data[c], size = std::abs(x);
        sums[c] += x, squares[c] += x * x;
        largest[c] = largest[c] < size ? size : largest[c];
      }
    for (size_t c = 0; c < channels; ++c) channel_sums_[c] += sums[c], channel_squares_[c] += squares[c];
  }
}

void Observation::AddChannels(const Tensor& tensor, size_t axis) {
  const size_t channels = static_cast<size_t>(tensor.dim(axis));
  const int64_t outer = tensor.shape().CountBetween(0, axis),
                inner = tensor.shape().CountBetween(axis + 1, tensor.rank());
  channel_sums_.resize(channels, 0), channel_squares_.resize(channels, 0), channel_largest_.resize(channels, 0);
  channel_count_ += outer * inner;
  const float* data = tensor.Data<float>();
  if (inner == 1) return AddRows(data, outer);
  constexpr int64_t kLanes = 8;  // sums side by side, for vectors
  for (int64_t o = 0; o < outer; ++o)
    for (size_t c = 0; c < channels; ++c, data += inner) {
      float total[kLanes] = {}, power[kLanes] = {}, largest[kLanes] = {};
      auto add = [&](int64_t i, int64_t k) {
        const float x = data[i], size = std::abs(x);
        total[k] += x, power[k] += x * x;
        largest[k] = largest[k] < size ? size : largest[k];
      };
      int64_t i = 0;
      for (; i + kLanes <= inner; i += kLanes)
        for (int64_t k = 0; k < kLanes; ++k) add(i + k, k);
      for (; i < inner; ++i) add(i, 0);
      for (int64_t k = 0; k < kLanes; ++k) {
        channel_sums_[c] += total[k], channel_squares_[c] += power[k];
        channel_largest_[c] = std::max(channel_largest_[c], largest[k]);
      }
    }
}

double Observation::variance() const {
  if (count_ == 0) return 0;
  const double mean = sum_ / static_cast<double>(count_);
  return std::max(0.0, squares_ / static_cast<double>(count_) - mean * mean);
}

std::vector<float> Observation::ChannelMeans() const {
  std::vector<float> means;
  for (double sum : channel_sums_) means.push_back(static_cast<float>(sum / static_cast<double>(channel_count_)));
  return means;
}

std::vector<float> Observation::ChannelSquares() const {
  std::vector<float> means;
  for (double sum : channel_squares_) means.push_back(static_cast<float>(sum / static_cast<double>(channel_count_)));
  return means;
}

double Observation::Noise(const Coding& coding) const {
  if (count_ == 0) return 0;
  const double low = coding.low(), high = coding.high(), rounding = double(coding.scale) * coding.scale / 12;
  double noise = -static_cast<double>(zeros_) * rounding;  // zero is exact
  for (int i = 0; i < kBins; ++i) {
    const double weight = bins_[static_cast<size_t>(i)];
    if (weight == 0) continue;
    const double centre = std::clamp(BinCentre(i), double(low_), double(high_)), cut = std::clamp(centre, low, high);
    noise += weight * ((centre - cut) * (centre - cut) + (cut == centre ? rounding : 0));
  }
  return std::max(0.0, noise / static_cast<double>(count_));
}

double Observation::CutOff(const Coding& coding) const {
  if (count_ == 0) return 0;
  double cut = 0;
  const double slack = coding.scale * 0.5;
  for (int i = 0; i < kBins; ++i) {
    const double centre = std::clamp(BinCentre(i), double(low_), double(high_));
    if (centre < coding.low() - slack || centre > coding.high() + slack) cut += bins_[static_cast<size_t>(i)];
  }
  return cut / static_cast<double>(count_);
}

std::vector<double> Observation::Histogram(int bins) const {
  std::vector<double> parts(static_cast<size_t>(bins), 0.0);
  const double span = double(high_) - low_;
  if (count_ == 0 || !(span > 0)) return parts;
  for (int i = 0; i < kBins; ++i) {
    const int at = static_cast<int>((BinCentre(i) - low_) / span * bins);
    parts[static_cast<size_t>(std::clamp(at, 0, bins - 1))] +=
        bins_[static_cast<size_t>(i)] / static_cast<double>(count_);
  }
  return parts;
}

std::pair<float, float> Observation::ByPercentile(double percentile, bool symmetric) const {
  const double out = static_cast<double>(count_) * (1 - percentile / 100) * (symmetric ? 1.0 : 0.5);
  if (symmetric) {
    double low = low_, high = high_, seen = 0;
    int i = 0, k = kBins - 1;
    while (i < k) {  // from the outside, the larger magnitude first
      const bool take_low = -BinCentre(i) > BinCentre(k);
      seen += bins_[static_cast<size_t>(take_low ? i : k)];
      if (seen > out) break;
      if (take_low)
        low = BinCentre(++i);
      else
        high = BinCentre(--k);
    }
    return {static_cast<float>(low), static_cast<float>(high)};
  }
  double low = low_, high = high_, seen = 0;
  for (int i = 0; i < kBins; ++i) {
    seen += bins_[static_cast<size_t>(i)];
    if (seen > out) break;
    low = bottom_ + (i + 1) * width_;
  }
  seen = 0;
  for (int i = kBins - 1; i >= 0; --i) {
    seen += bins_[static_cast<size_t>(i)];
    if (seen > out) break;
    high = bottom_ + i * width_;
  }
  return {static_cast<float>(std::min(low, double(high_))), static_cast<float>(std::max(high, double(low_)))};
}

std::pair<float, float> Observation::ByError(const Conventions& conventions) const {
  auto error = [&](double low, double high) {
    return Noise(MakeCoding(static_cast<float>(low), static_cast<float>(high), conventions));
  };
  double low = low_, high = high_, best = error(low, high);
  // One end after the other, three times: the ends hardly depend on each other.
  for (int round = 0; round < 3; ++round) {
    const double from_low = low, from_high = high;
    for (int i = 1; i < 60; ++i) {
      const double shrunk = from_high * (1 - i / 64.0), found = error(low, shrunk);
      if (high_ > 0 && found < best) best = found, high = shrunk;
    }
    for (int i = 1; i < 60 && low_ < 0; ++i) {
      const double shrunk = from_low * (1 - i / 64.0), found = error(shrunk, high);
      if (found < best) best = found, low = shrunk;
    }
    if (low == from_low && high == from_high) break;
  }
  return {static_cast<float>(low), static_cast<float>(high)};
}

// The cut whose 256 levels tell the distribution best (Kullback and Leibler).
std::pair<float, float> Observation::ByEntropy(bool symmetric) const {
  double best = INFINITY, best_part = 1;
  // Zeros are exact in every range, and say nothing about how fine it must be.
  std::vector<double> bins = bins_;
  double& around_zero = bins[static_cast<size_t>(std::clamp(static_cast<int>(-bottom_ / width_), 0, kBins - 1))];
  around_zero = std::max(0.0, around_zero - static_cast<double>(zeros_));
  double count = 0;
  for (double one : bins) count += one;
  for (int step = 0; step < 48; ++step) {
    const double part = 1 - step / 64.0;
    double low = low_ * part, high = high_ * part;
    if (symmetric) high = std::max(-low, high), low = -high;
    const int first = std::clamp(static_cast<int>((low - bottom_) / width_), 0, kBins - 1);
    const int last = std::clamp(static_cast<int>((high - bottom_) / width_), first, kBins - 1);
    const int levels = std::min(256, last - first + 1);
    std::vector<double> cut(bins.begin() + first, bins.begin() + last + 1);
    for (int i = 0; i < first; ++i) cut.front() += bins[static_cast<size_t>(i)];
    for (int i = last + 1; i < kBins; ++i) cut.back() += bins[static_cast<size_t>(i)];
    std::vector<double> total(static_cast<size_t>(levels), 0.0), used(static_cast<size_t>(levels), 0.0);
    auto level = [&](size_t i) { return i * static_cast<size_t>(levels) / cut.size(); };
    for (size_t i = 0; i < cut.size(); ++i) {
      total[level(i)] += bins[static_cast<size_t>(first) + i];
      used[level(i)] += cut[i] > 0;
    }
    double divergence = 0, kept = 0;
    for (double one : total) kept += one;
    for (size_t i = 0; i < cut.size() && kept > 0; ++i) {
      if (cut[i] <= 0) continue;
      const double p = cut[i] / count;
      const double q = std::max(1e-12, total[level(i)] / std::max(1.0, used[level(i)]) / kept);
      divergence += p * std::log(p / q);
    }
    if (divergence < best - 1e-9) best = divergence, best_part = part;
  }
  return {static_cast<float>(low_ * best_part), static_cast<float>(high_ * best_part)};
}

Coding Observation::Choose(RangeMethod method, double percentile, const Conventions& conventions) const {
  std::pair<float, float> range{low_, high_};
  if (count_ > 0 && high_ > low_) {
    const bool symmetric = conventions.symmetric_activations;
    if (method == RangeMethod::kPercentile) range = ByPercentile(percentile, symmetric);
    if (method == RangeMethod::kMse || method == RangeMethod::kBest) range = ByError(conventions);
    if (method == RangeMethod::kEntropy) range = ByEntropy(symmetric);
  }
  return MakeCoding(range.first, range.second, conventions);
}

}  // namespace ferry::quantize
