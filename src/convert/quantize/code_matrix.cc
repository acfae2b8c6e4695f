#include "convert/quantize/code_matrix.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ferry::quantize {
namespace {

constexpr float kSmallestScale = 1e-30f;

struct Block {
  float scale = 1;
  int zero = 0;
};

// One block of a row: its columns, what they weigh, and the levels there are.
struct Fit {
  const float* w;
  const float* importance;  // null: all alike
  int64_t n;
  int least, most, middle;
  bool symmetric;

  static int Nearest(float value) {
    // Halves to even, by the rounding of float addition; codes are far below 2²².
    constexpr float kMagic = 12582912.0f;
    return static_cast<int>((value + kMagic) - kMagic);
  }
  int Code(const Block& block, float value) const {
    const float level = std::clamp(value / block.scale, -512.0f, 512.0f);
    return std::clamp(Nearest(level) + block.zero, least, most);
  }
  double Error(const Block& block) const {
    const float inverse = 1 / block.scale, low = static_cast<float>(least - block.zero),
                high = static_cast<float>(most - block.zero);
    constexpr float kMagic = 12582912.0f;
    constexpr int64_t kLanes = 8;  // sums side by side, for vectors
    auto square = [&](int64_t i) {
      float level = w[i] * inverse;
      level = level < low ? low : level;
      level = level > high ? high : level;
      const float off = w[i] - ((level + kMagic) - kMagic) * block.scale;
      return off * off;
    };
    float sums[kLanes] = {}, error = 0;
    int64_t i = 0;
    if (importance)
      for (; i + kLanes <= n; i += kLanes)
        for (int64_t k = 0; k < kLanes; ++k) sums[k] += square(i + k) * importance[i + k];
    else
      for (; i + kLanes <= n; i += kLanes)
        for (int64_t k = 0; k < kLanes; ++k) sums[k] += square(i + k);
    for (; i < n; ++i) error += square(i) * (importance ? importance[i] : 1.0f);
    for (float sum : sums) error += sum;
    return error;
  }

  Block Make(float low, float high) const {
    Block block;
    if (symmetric) {
      block.zero = middle;
      block.scale = std::max(-low, high) / static_cast<float>(most - middle);
    } else {
      low = std::min(low, 0.0f), high = std::max(high, 0.0f);
      block.scale = (high - low) / static_cast<float>(most - least);
      if (block.scale > kSmallestScale) block.zero = std::clamp(Nearest(-low / block.scale) + least, least, most);
    }
    if (!(block.scale > kSmallestScale)) block = {1, symmetric ? middle : least};
    return block;
  }

  Block Plain() const {
    float low = 0, high = 0;
    for (int64_t i = 0; i < n; ++i) low = std::min(low, w[i]), high = std::max(high, w[i]);
    return Make(low, high);
  }

  Block Search(int steps, float stride) const {
    float low = 0, high = 0;
    for (int64_t i = 0; i < n; ++i) low = std::min(low, w[i]), high = std::max(high, w[i]);
    Block best = Make(low, high);
    double least_error = Error(best);
    auto attempt = [&](const Block& block) {
      const double error = Error(block);
      if (error >= least_error) return;
      least_error = error, best = block;
    };
    // Signed levels reach one further down than up, so that a little more than the largest weight may do.
    const float more = symmetric ? 1.0f + stride : 1.0f;
    int both = 0;
    for (int i = 0; i < steps; ++i) {
      const double before = least_error;
      const float part = more - stride * static_cast<float>(i);
      attempt(Make(low * part, high * part));
      if (least_error < before) both = i;
    }
    // Then each end by itself.
    const float part = more - stride * static_cast<float>(both);
    for (int i = -2; i <= 3 && !symmetric; ++i) {
      if (i == 0) continue;
      const float other = std::min(more, part - stride * static_cast<float>(i));
      attempt(Make(low * other, high * part));
      attempt(Make(low * part, high * other));
    }
    Refine(best, attempt);
    return best;
  }

  // The scale that suits the codes best, by least squares.
  template <class Attempt>
  void Refine(const Block& from, const Attempt& attempt) const {
    double dot = 0, power = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double level = Code(from, w[i]) - from.zero, weight = importance ? importance[i] : 1.0;
      dot += weight * w[i] * level, power += weight * level * level;
    }
    if (power > 0 && dot > 0) attempt(Block{static_cast<float>(dot / power), from.zero});
  }

  Block Best(WeightMethod method, int bits) const {
    if (method == WeightMethod::kNearest) return Plain();
    return bits <= 4 ? Search(symmetric ? 12 : 6, symmetric ? 0.04f : 0.07f) : Search(symmetric ? 5 : 3, 0.02f);
  }
};

// The upper triangle U of UᵀU = (H + damping)⁻¹, by which an error in one column is spread over those to come.
std::vector<double> Spreading(std::span<const double> products, int64_t depth) {
  const size_t n = static_cast<size_t>(depth);
  std::vector<double> h(products.begin(), products.end());
  double mean = 0;
  for (size_t i = 0; i < n; ++i) mean += h[i * n + i] / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) h[i * n + i] += 0.01 * mean + 1e-12;
  auto cholesky = [n](std::vector<double>& a) {  // a becomes the lower triangle L of LLᵀ
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k <= i; ++k) {
        double sum = a[i * n + k];
        const double *row = &a[i * n], *other = &a[k * n];
        for (size_t j = 0; j < k; ++j) sum -= row[j] * other[j];
        if (i == k && !(sum > 0)) return false;
        a[i * n + k] = i == k ? std::sqrt(sum) : sum / a[k * n + k];
      }
    return true;
  };
  if (!cholesky(h)) return {};
  // The inverse of L, then H⁻¹ = L⁻ᵀL⁻¹.
  std::vector<double> inverse(n * n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    double* row = &inverse[i * n];
    row[i] = 1;
    for (size_t k = 0; k < i; ++k) {
      const double factor = h[i * n + k];
      const double* above = &inverse[k * n];
      for (size_t j = 0; j <= k; ++j) row[j] -= factor * above[j];
    }
    for (size_t j = 0; j <= i; ++j) row[j] /= h[i * n + i];
  }
  std::vector<double> whole(n * n, 0.0);
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i <= k; ++i) {
      const double factor = inverse[k * n + i];
      for (size_t j = 0; j <= i; ++j) whole[i * n + j] += factor * inverse[k * n + j];
    }
  if (!cholesky(whole)) return {};
  std::vector<double> upper(n * n, 0.0);
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k <= i; ++k) upper[k * n + i] = whole[i * n + k];
  return upper;
}

class Coder {
 public:
  Coder(std::span<const float> matrix, CodedMatrix& coded, const CodingRequest& request)
      : matrix_(matrix), coded_(coded), request_(request) {
    if (request.method == WeightMethod::kGptq && !request.products.empty())
      spreading_ = Spreading(request.products, coded.depth);
    if (request.one_scale) whole_ = FitOf(matrix.data(), static_cast<int64_t>(matrix.size()), nullptr).Plain();
  }

  void Rows(int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) spreading_.empty() ? Plain(row) : Spread(row);
  }

 private:
  Fit FitOf(const float* w, int64_t n, const float* importance) const {
    const int middle = coded_.middle(), most = 2 * middle - 1;
    // Eight signed bits are kept symmetric: -128 has no partner.
    return {w, importance, n, coded_.symmetric && coded_.bits == 8 ? 1 : 0, most, middle, coded_.symmetric};
  }
  const float* Importance(int64_t column) const {
    return request_.importance.empty() ? nullptr : request_.importance.data() + column;
  }
  void Keep(int64_t row, int64_t block, const Block& fitted) {
    const size_t at = static_cast<size_t>(row * coded_.blocks + block);
    coded_.scales[at] = fitted.scale;
    if (!coded_.symmetric) coded_.zeros[at] = static_cast<uint8_t>(fitted.zero);
  }
  Block Fitted(const Fit& fit) const { return request_.one_scale ? whole_ : fit.Best(request_.method, coded_.bits); }

  void Plain(int64_t row) {
    for (int64_t block = 0; block < coded_.blocks; ++block) {
      const int64_t first = block * coded_.block, n = std::min(coded_.block, coded_.depth - first);
      const float* w = matrix_.data() + row * coded_.depth + first;
      const Fit fit = FitOf(w, n, Importance(first));
      const Block fitted = Fitted(fit);
      Keep(row, block, fitted);
      uint8_t* out = coded_.codes.data() + row * coded_.depth + first;
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(fit.Code(fitted, w[i]));
    }
  }

  void Spread(int64_t row) {
    const size_t depth = static_cast<size_t>(coded_.depth);
    std::vector<float> w(matrix_.begin() + row * coded_.depth, matrix_.begin() + (row + 1) * coded_.depth);
    Block fitted;
    for (size_t i = 0; i < depth; ++i) {
      const int64_t column = static_cast<int64_t>(i), block = column / coded_.block;
      const int64_t n = std::min(coded_.block, coded_.depth - block * coded_.block);
      const Fit fit = FitOf(w.data() + block * coded_.block, n, Importance(block * coded_.block));
      if (column % coded_.block == 0) Keep(row, block, fitted = Fitted(fit));
      const int code = fit.Code(fitted, w[i]);
      coded_.codes[static_cast<size_t>(row) * depth + i] = static_cast<uint8_t>(code);
      const double* u = &spreading_[i * depth];
      const double error = (w[i] - double(fitted.scale) * (code - fitted.zero)) / u[i];
      for (size_t k = i + 1; k < depth; ++k) w[k] -= static_cast<float>(error * u[k]);
    }
  }

  const std::span<const float> matrix_;
  CodedMatrix& coded_;
  const CodingRequest& request_;
  std::vector<double> spreading_;
  Block whole_;
};

}  // namespace

CodedMatrix CodeMatrix(std::span<const float> matrix, int64_t rows, int64_t depth, const CodingRequest& request,
                       ThreadPool& pool) {
  CodedMatrix coded;
  coded.rows = rows, coded.depth = depth, coded.bits = request.bits, coded.symmetric = request.symmetric;
  coded.block = request.block > 0 ? std::min(request.block, depth) : depth;
  coded.blocks = (depth + coded.block - 1) / coded.block;
  for (float value : matrix)
    if (!std::isfinite(value)) Fail(ErrorCode::kInvalidModel, "the weight has NaN or an infinity");
  coded.codes.resize(matrix.size());
  coded.scales.resize(static_cast<size_t>(rows * coded.blocks));
  if (!coded.symmetric) coded.zeros.resize(coded.scales.size());
  Coder coder(matrix, coded, request);
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, depth));
  pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) { coder.Rows(begin, end); });
  return coded;
}

double SnrOf(std::span<const float> matrix, const CodedMatrix& coded, std::span<const float> importance) {
  double signal = 0, noise = 0;
  for (int64_t row = 0; row < coded.rows; ++row)
    for (int64_t i = 0; i < coded.depth; ++i) {
      const double w = matrix[static_cast<size_t>(row * coded.depth + i)], off = w - coded.Value(row, i);
      const double weight = importance.empty() ? 1.0 : importance[static_cast<size_t>(i)];
      signal += weight * w * w, noise += weight * off * off;
    }
  return noise > 0 && signal > 0 ? 10 * std::log10(signal / noise) : 200;
}

}  // namespace ferry::quantize
