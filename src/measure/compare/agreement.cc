#include "measure/compare/agreement.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "measure/elements.h"

namespace ferry {
namespace {

using Numbers = std::vector<double>;

struct FloatFormat {
  int digits;          // of the mantissa, the leading one included
  int least_exponent;  // of normal numbers
};

FloatFormat FormatOf(DType type) {
  switch (type) {
    case DType::kFloat16: return {11, -14};
    case DType::kBFloat16: return {8, -126};
    case DType::kDouble: return {53, -1022};
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ: return {4, -6};
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ: return {3, -14};
    default: return {24, -126};
  }
}

// The distance from a number to the next one in the format.
double Spacing(double value, FloatFormat format) {
  int exponent = value == 0 ? format.least_exponent : std::max(std::ilogb(value), format.least_exponent);
  return std::ldexp(1.0, exponent - format.digits + 1);
}

std::optional<double> CosineOf(const Numbers& a, const Numbers& b) {
  double largest_a = 0, largest_b = 0;
  for (double x : a) largest_a = std::max(largest_a, std::isnan(x) ? INFINITY : std::abs(x));
  for (double x : b) largest_b = std::max(largest_b, std::isnan(x) ? INFINITY : std::abs(x));
  if (!(largest_a > 0 && largest_b > 0) || std::isinf(largest_a) || std::isinf(largest_b)) return std::nullopt;
  double dot = 0, norm_a = 0, norm_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double x = a[i] / largest_a, y = b[i] / largest_b;
    dot += x * y;
    norm_a += x * x;
    norm_b += y * y;
  }
  return std::clamp(dot / std::sqrt(norm_a * norm_b), -1.0, 1.0);
}

void MeasureElements(const Numbers& a, const Numbers& b, FloatFormat format, Agreement& agreement) {
  ErrorHistogram& histogram = agreement.histogram;
  double sum = 0;
  int64_t measured = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      ++histogram.equal;
      measured += std::isfinite(a[i]);
      continue;
    }
    double distance = std::abs(a[i] - b[i]);
    if (!std::isfinite(distance)) {
      ++histogram.not_finite;
      continue;
    }
    double ulp = distance / Spacing(b[i], format);
    agreement.max_ulp = std::max(agreement.max_ulp, ulp);
    sum += ulp;
    ++measured;
    int power = static_cast<int>(std::floor(std::log10(distance)));
    ++histogram.bins[std::clamp(power, ErrorHistogram::kLowest, ErrorHistogram::kHighest) - ErrorHistogram::kLowest];
  }
  if (measured > 0) agreement.mean_ulp = sum / static_cast<double>(measured);
}

// The places of the k largest elements, lowest place first among equals; NaN counts as the largest.
std::vector<size_t> Largest(std::span<const double> row, size_t k) {
  std::vector<size_t> places(row.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  auto before = [&](size_t a, size_t b) {
    double x = std::isnan(row[a]) ? INFINITY : row[a], y = std::isnan(row[b]) ? INFINITY : row[b];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(k), places.end(), before);
  places.resize(k);
  std::sort(places.begin(), places.end());
  return places;
}

std::optional<Decisions> SameLargest(const Numbers& a, const Numbers& b, const Shape& shape, size_t k) {
  bool looks_like_scores = shape.rank() >= 1 && shape.rank() <= 3 && shape.back() >= 2;
  if (!looks_like_scores || k < 1 || static_cast<size_t>(shape.back()) <= k) return std::nullopt;
  auto width = static_cast<size_t>(shape.back());
  Decisions decisions;
  for (size_t begin = 0; begin + width <= a.size(); begin += width) {
    ++decisions.rows;
    decisions.same += Largest({a.data() + begin, width}, k) == Largest({b.data() + begin, width}, k);
  }
  return decisions;
}

void Join(std::optional<Decisions>& into, const std::optional<Decisions>& other) {
  if (!other) return;
  if (!into) into = Decisions{};
  into->rows += other->rows;
  into->same += other->same;
}

}  // namespace

int64_t ErrorHistogram::total() const {
  int64_t sum = equal + not_finite;
  for (int64_t count : bins) sum += count;
  return sum;
}

void Agreement::Include(const Agreement& other, int64_t elements_before, int64_t elements_of_other) {
  if (other.cosine) cosine = cosine ? std::min(*cosine, *other.cosine) : other.cosine;
  max_ulp = std::max(max_ulp, other.max_ulp);
  int64_t total = elements_before + elements_of_other;
  if (total > 0)
    mean_ulp += (other.mean_ulp - mean_ulp) * static_cast<double>(elements_of_other) / static_cast<double>(total);
  Join(argmax, other.argmax);
  Join(top_k, other.top_k);
  histogram.equal += other.histogram.equal;
  histogram.not_finite += other.histogram.not_finite;
  for (size_t i = 0; i < histogram.bins.size(); ++i) histogram.bins[i] += other.histogram.bins[i];
}

std::optional<Agreement> Agree(const Value& actual, const Value& expected, int64_t k) {
  if (!actual.is_tensor() || !expected.is_tensor()) return std::nullopt;
  const Tensor &left = actual.tensor(), &right = expected.tensor();
  if (!IsFloating(left.dtype()) || !IsFloating(right.dtype()) || !(left.shape() == right.shape())) return std::nullopt;
  Numbers a = ToDoubles(left), b = ToDoubles(right);
  Agreement agreement;
  agreement.cosine = CosineOf(a, b);
  MeasureElements(a, b, FormatOf(left.dtype()), agreement);
  agreement.argmax = SameLargest(a, b, left.shape(), 1);
  agreement.top_k = SameLargest(a, b, left.shape(), static_cast<size_t>(std::max<int64_t>(k, 0)));
  return agreement;
}

}  // namespace ferry
