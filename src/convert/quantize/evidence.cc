#include "convert/quantize/evidence.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ferry::quantize {
namespace {

constexpr size_t kMostLeads = 1 << 16;
constexpr double kTimesSeen = 4;                            // as many rows, as a rule those of all data
constexpr double kShortestTail = -0.1, kLongestTail = 0.5;  // powers; 0: exponential
constexpr size_t kFewestTail = 8;  // rows that tell a tail; an eighth of all where that is more

double NormalTail(double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); }

size_t TailOf(size_t count) { return std::min(count, std::max(kFewestTail, count / 8)); }

// Sum of y over sum of x, and as many standard errors more as are asked for.
double UpperRatio(const std::vector<double>& y, const std::vector<double>& x, double confidence) {
  double sum_y = 0, sum_x = 0;
  for (size_t i = 0; i < x.size(); ++i) sum_y += y[i], sum_x += x[i];
  if (!(sum_x > 0)) return 0;
  const double ratio = sum_y / sum_x, n = static_cast<double>(x.size());
  if (x.size() < 2) return ratio;
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) squares += (y[i] - ratio * x[i]) * (y[i] - ratio * x[i]);
  return ratio + WithFewSamples(confidence, x.size()) * std::sqrt(squares * n / (n - 1)) / sum_x;
}

}  // namespace

double WithFewSamples(double confidence, size_t samples) {
  if (samples < 2) return confidence;
  return confidence * (1 + (confidence * confidence + 1) / (4 * static_cast<double>(samples - 1)));
}

void AnswerSums::Add(const AnswerSums& other) {
  signal += other.signal;
  noise += other.noise;
  dot += other.dot;
  a2 += other.a2;
  b2 += other.b2;
  largest = std::max(largest, other.largest);
  difference = std::max(difference, other.difference);
  numbers += other.numbers;
  rows += other.rows;
  same += other.same;
  finite &= other.finite;
}

double AnswerSums::snr() const {
  if (!finite) return -kNoNoise;
  if (noise == 0) return kNoNoise;
  if (!(noise > 0)) return -kNoNoise;
  return !(signal > 0) ? 0 : std::min(kNoNoise, 10 * std::log10(signal / noise));
}

double AnswerSums::cosine() const { return a2 > 0 && b2 > 0 ? dot / std::sqrt(a2 * b2) : a2 == b2 ? 1 : 0; }

AnswerSums OutputEvidence::AddRows(const float* a, const float* b, int64_t count, int64_t width) {
  AnswerSums sums;
  for (int64_t row = 0; row < count; ++row, a += width, b += width) {
    double mean_a = 0, mean_b = 0, numbers = 0, row_noise = 0, first = -INFINITY, second = -INFINITY;
    for (int64_t i = 0; i < width; ++i) {
      if (std::isfinite(a[i]) && std::isfinite(b[i]))
        mean_a += a[i], mean_b += b[i], ++numbers;
      else
        sums.finite &= a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));  // masks are as infinite as they were
    }
    if (width == 1) mean_a = mean_b = 0;
    if (numbers > 0) mean_a /= numbers, mean_b /= numbers;
    for (int64_t i = 0; i < width; ++i) {
      const double x = a[i], y = b[i], noise = (x - mean_a) - (y - mean_b);
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      sums.signal += (y - mean_b) * (y - mean_b);
      row_noise += noise * noise;
      sums.dot += x * y, sums.a2 += x * x, sums.b2 += y * y;
      sums.largest = std::max(sums.largest, std::abs(y));
      sums.difference = std::max(sums.difference, std::abs(x - y));
      second = std::max(second, std::min(first, y)), first = std::max(first, y);
    }
    sums.numbers += static_cast<int64_t>(numbers);
    sums.noise += row_noise;
    if (width == 1) continue;
    ++sums.rows;
    sums.same += std::max_element(a, a + width) - a == std::max_element(b, b + width) - b;
    if (std::isfinite(second) && leads_.size() < kMostLeads)
      leads_.push_back({first - second, row_noise / (numbers - 1)});
  }
  return sums;
}

AnswerSums OutputEvidence::Add(const Tensor& actual, const Tensor& expected, int64_t rows) {
  AnswerSums sums;
  is_whole_ = expected.dtype() == DType::kInt64;
  const bool fits = actual.shape() == expected.shape(),
             is_batch = rows > 1 && expected.rank() > 0 && expected.dim(0) == rows;
  const int64_t units = fits && is_batch ? rows : 1, step = expected.size() / units;
  const int64_t width = expected.rank() <= is_batch ? 1 : std::max<int64_t>(1, expected.shape().back());
  for (int64_t unit = 0; unit < units; ++unit) {
    AnswerSums one;
    if (is_whole_) {
      one.rows = step;
      for (int64_t i = unit * step; fits && i < (unit + 1) * step; ++i)
        one.same += actual.Data<int64_t>()[i] == expected.Data<int64_t>()[i];
    } else if (fits) {
      one = AddRows(actual.Data<float>() + unit * step, expected.Data<float>() + unit * step, step / width, width);
    } else {
      one.finite = false;
    }
    units_.push_back(one);
    sums.Add(one);
  }
  total_.Add(sums);
  return sums;
}

double OutputEvidence::NoiseRatio(double confidence) const {
  std::vector<double> noise, signal;
  for (const AnswerSums& unit : units_) noise.push_back(unit.noise), signal.push_back(unit.signal);
  return UpperRatio(noise, signal, confidence);
}

double OutputEvidence::CosineLoss(double confidence) const {
  if (!(total_.a2 > 0) || !(total_.b2 > 0)) return 1 - total_.cosine();
  // 1 - cosine is half the square of the distance between the two directions, which each row adds its part to.
  const double cross = std::sqrt(total_.a2 * total_.b2);
  std::vector<double> loss, weight;
  for (const AnswerSums& unit : units_) {
    loss.push_back(0.5 * (unit.a2 / total_.a2 + unit.b2 / total_.b2) - unit.dot / cross);
    weight.push_back(unit.b2 / total_.b2);
  }
  return UpperRatio(loss, weight, confidence);
}

// Rows that flip are too few to be counted. Their rate follows from how closely the leads lie above zero, and from
// the noise where the lead is small: with leads of density d and a noise of deviation s it is d·s/√(2π).
double OutputEvidence::FlipRate(double confidence) const {
  if (is_whole_) return ChangeRate(confidence);
  if (leads_.size() < 2) return 0;
  std::vector<Lead> leads = leads_;
  std::sort(leads.begin(), leads.end(), [](const Lead& a, const Lead& b) { return a.margin < b.margin; });
  const size_t near = TailOf(leads.size());
  double noise = 0;
  for (size_t i = 0; i < near; ++i) noise += leads[i].noise;
  const double deviation = std::sqrt(2 * noise / static_cast<double>(near));
  if (!(deviation > 0)) return 0;
  std::vector<double> margins = other_margins_;
  for (const Lead& lead : leads) margins.push_back(lead.margin);
  std::sort(margins.begin(), margins.end());
  const size_t tail = TailOf(margins.size());
  const double all = static_cast<double>(margins.size());
  double direct = 0;
  for (double margin : margins) direct += NormalTail(margin / deviation) / all;
  const double density = static_cast<double>(tail) / all / std::max(margins[tail - 1], 1e-30);
  const double rate = std::max(direct, std::min(1.0, density * deviation / std::sqrt(2 * std::numbers::pi)));
  const double independent = static_cast<double>(std::min(tail, TailOf(units_.size() + other_units_)));
  return std::min(1.0, rate * (1 + confidence / std::sqrt(independent)));
}

void OutputEvidence::TakeLeads(const OutputEvidence& others) {
  for (const Lead& lead : others.leads_) other_margins_.push_back(lead.margin);
  other_units_ += others.units_.size();
}

// Of whole numbers only those that changed are known: as rare events are counted, in parts of a row.
double OutputEvidence::ChangeRate(double confidence) const {
  double changed = 0;
  for (const AnswerSums& unit : units_)
    if (unit.rows > 0) changed += 1 - static_cast<double>(unit.same) / static_cast<double>(unit.rows);
  const double root = std::sqrt(changed + 1) + confidence / 2;
  return std::min(1.0, root * root / static_cast<double>(std::max<size_t>(1, units_.size())));
}

// The largest of four times the rows seen: what is rarer cannot be foretold from so few. By a tail
// through the largest differences seen (generalised Pareto, by moments), as wide and as long as their scatter allows.
double OutputEvidence::LargestPart(double confidence) const {
  if (!(total_.largest > 0)) return 0;
  const double seen = total_.difference / total_.largest;
  if (units_.size() < 3) return seen;
  std::vector<double> differences;
  for (const AnswerSums& unit : units_) differences.push_back(unit.difference);
  std::sort(differences.rbegin(), differences.rend());
  const size_t tail = TailOf(differences.size());
  const double threshold = differences[tail - 1], over = static_cast<double>(tail - 1);
  double excess = 0, squares = 0;
  for (size_t i = 0; i + 1 < tail; ++i) excess += (differences[i] - threshold) / over;
  for (size_t i = 0; i + 1 < tail; ++i) squares += std::pow(differences[i] - threshold - excess, 2);
  const double variance = squares / (over - 1), error = confidence / std::sqrt(over);
  const double power = variance > 0 ? std::max(0.5 * (1 - excess * excess / variance), kShortestTail) : kShortestTail;
  const double luck = -std::log(-std::log1p(-NormalTail(confidence)));
  const double reach = std::log(kTimesSeen * static_cast<double>(tail)) + luck;
  const double longest = std::min(power + 0.15 * error, kLongestTail);
  const double stretch = std::abs(longest) > 1e-6 ? std::expm1(longest * reach) / longest : reach;
  const double width = excess * (1 + 0.5 * error) * (1 - std::max(power, 0.0)) * stretch;
  return std::max(seen, (threshold + width) / total_.largest);
}

}  // namespace ferry::quantize
