#include "convert/quantize/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "ops/support/cast_tensor.h"

namespace ferry::quantize {
namespace {

constexpr size_t kMostKept = size_t{64} << 20;  // bytes of answers
constexpr double kNoNoise = 200;                // dB

struct Sums {
  double signal = 0, noise = 0;  // mean-free
  double dot = 0, a2 = 0, b2 = 0;
  double largest = 0, difference = 0;
  int64_t rows = 0, same = 0;
  bool finite = true;

  void Add(const Sums& other) {
    signal += other.signal;
    noise += other.noise;
    dot += other.dot;
    a2 += other.a2;
    b2 += other.b2;
    largest = std::max(largest, other.largest);
    difference = std::max(difference, other.difference);
    rows += other.rows;
    same += other.same;
    finite &= other.finite;
  }
  double snr() const {
    if (!finite) return -kNoNoise;
    if (noise <= 0) return kNoNoise;
    return signal <= 0 ? 0 : std::min(kNoNoise, 10 * std::log10(signal / noise));
  }
};

Sums Hold(const Tensor& actual, const Tensor& expected) {
  Sums sums;
  if (actual.shape() != expected.shape()) {
    sums.finite = false;
    return sums;
  }
  const int64_t width = expected.rank() == 0 ? 1 : std::max<int64_t>(1, expected.shape().back());
  const float *a = actual.Data<float>(), *b = expected.Data<float>();
  for (int64_t row = 0; row < expected.size() / width; ++row, a += width, b += width) {
    double mean_a = 0, mean_b = 0;
    if (width > 1) {
      for (int64_t i = 0; i < width; ++i) mean_a += a[i], mean_b += b[i];
      mean_a /= static_cast<double>(width), mean_b /= static_cast<double>(width);
    }
    for (int64_t i = 0; i < width; ++i) {
      const double x = a[i], y = b[i], noise = (x - mean_a) - (y - mean_b);
      sums.finite &= std::isfinite(x) || !std::isfinite(y);
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      sums.signal += (y - mean_b) * (y - mean_b);
      sums.noise += noise * noise;
      sums.dot += x * y, sums.a2 += x * x, sums.b2 += y * y;
      sums.largest = std::max(sums.largest, std::abs(y));
      sums.difference = std::max(sums.difference, std::abs(x - y));
    }
    ++sums.rows;
    sums.same += std::max_element(a, a + width) - a == std::max_element(b, b + width) - b;
  }
  return sums;
}

int64_t CountRight(const Tensor& answers, const std::vector<int64_t>& labels) {
  const int64_t width = answers.rank() == 0 ? 1 : std::max<int64_t>(1, answers.shape().back());
  if (answers.size() / width != static_cast<int64_t>(labels.size())) return -1;
  int64_t right = 0;
  const float* row = answers.Data<float>();
  for (int64_t label : labels) {
    right += std::max_element(row, row + width) - row == label;
    row += width;
  }
  return right;
}

}  // namespace

Judge::Judge(std::shared_ptr<Session> original, const Samples& samples, std::vector<size_t> chosen)
    : original_(std::move(original)), samples_(samples), chosen_(std::move(chosen)) {
  size_t bytes = 0;
  for (size_t sample : chosen_) {
    answers_.push_back(Answers(*original_, sample));
    for (const Tensor& answer : answers_.back()) bytes += answer.bytes();
    if (bytes > kMostKept) {
      answers_.clear();
      return;
    }
  }
  original_.reset();  // nothing more is asked of it
}

Judge Judge::Fewer(size_t count) const {
  Judge fewer(original_, samples_);
  fewer.chosen_.assign(chosen_.begin(), chosen_.begin() + static_cast<ptrdiff_t>(std::min(count, chosen_.size())));
  if (!answers_.empty())
    fewer.answers_.assign(answers_.begin(), answers_.begin() + static_cast<ptrdiff_t>(fewer.chosen_.size()));
  return fewer;
}

std::vector<Tensor> Judge::Answers(const Session& session, size_t sample) const {
  std::vector<NamedValue> inputs = samples_.Inputs(sample);
  for (size_t i = 0; i < inputs.size() && i < session.inputs().size(); ++i) {
    const DType wanted = session.inputs()[i].type.dtype;
    if (inputs[i].second.tensor().dtype() != wanted) inputs[i].second = CastTensor(inputs[i].second.tensor(), wanted);
  }
  std::vector<Tensor> answers;
  for (const Value& value : session.Run(inputs))
    if (value.is_tensor() && IsFloating(value.tensor().dtype()))
      answers.push_back(CastTensor(value.tensor(), DType::kFloat).Persistent());
  return answers;
}

Faithfulness Judge::Compare(const Session& other) const {
  Faithfulness found;
  std::vector<Sums> totals;
  int64_t right = 0, float_right = 0, labelled = 0;
  for (size_t i = 0; i < chosen_.size(); ++i) {
    const std::vector<Tensor> expected = answers_.empty() ? Answers(*original_, chosen_[i]) : answers_[i];
    const std::vector<Tensor> actual = Answers(other, chosen_[i]);
    Require(actual.size() == expected.size(), "the models have not as many outputs");
    totals.resize(expected.size());
    double worst = kNoNoise;
    for (size_t k = 0; k < expected.size(); ++k) {
      const Sums sums = Hold(actual[k], expected[k]);
      worst = std::min(worst, sums.snr());
      totals[k].Add(sums);
    }
    found.samples.emplace_back(samples_.name(chosen_[i]), worst);
    const std::vector<int64_t> labels = samples_.Labels(chosen_[i]);
    if (labels.empty() || expected.empty()) continue;
    const int64_t now = CountRight(actual[0], labels), before = CountRight(expected[0], labels);
    if (now < 0 || before < 0) continue;
    right += now, float_right += before, labelled += static_cast<int64_t>(labels.size());
  }
  found.snr = kNoNoise;
  for (const Sums& sums : totals) {
    found.snr = std::min(found.snr, sums.snr());
    if (sums.a2 > 0 && sums.b2 > 0) found.cosine = std::min(found.cosine, sums.dot / std::sqrt(sums.a2 * sums.b2));
    if (sums.largest > 0) found.max_rel = std::max(found.max_rel, sums.difference / sums.largest);
    if (sums.rows > 0)
      found.agree = std::min(found.agree, 100.0 * static_cast<double>(sums.same) / static_cast<double>(sums.rows));
    found.finite &= sums.finite;
    found.rows = std::max(found.rows, sums.rows);
  }
  if (labelled > 0) {
    found.top1 = 100.0 * static_cast<double>(right) / static_cast<double>(labelled);
    found.float_top1 = 100.0 * static_cast<double>(float_right) / static_cast<double>(labelled);
  }
  return found;
}

namespace {

double RunOnce(const Session& session, const std::vector<NamedValue>& inputs) {
  using Clock = std::chrono::steady_clock;
  std::vector<NamedValue> cast = inputs;
  for (size_t i = 0; i < cast.size(); ++i)
    if (cast[i].second.tensor().dtype() != session.inputs()[i].type.dtype)
      cast[i].second = CastTensor(cast[i].second.tensor(), session.inputs()[i].type.dtype);
  const Clock::time_point begin = Clock::now();
  session.Run(cast);
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

double TimeOf(const Session& session, const std::vector<NamedValue>& inputs) {
  RunOnce(session, inputs);
  const double first = RunOnce(session, inputs);
  return std::min(first, RunOnce(session, inputs));
}

std::pair<double, double> TimeInTurns(const Session& a, const Session& b, const std::vector<NamedValue>& inputs) {
  auto once = [&](const Session& session) { return RunOnce(session, inputs); };
  // The first runs make programs ready. What is slow is not run often: its time tells enough.
  double best_a = (once(a), once(a)), best_b = (once(b), once(b)), spent = best_a + best_b;
  for (int turn = 0; turn < 20 && spent < 300; ++turn) {
    const double now_a = once(a), now_b = once(b);
    best_a = std::min(best_a, now_a), best_b = std::min(best_b, now_b);
    spent += now_a + now_b;
  }
  return {best_a, best_b};
}

}  // namespace ferry::quantize
