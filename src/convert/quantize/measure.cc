#include "convert/quantize/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "base/error.h"
#include "ops/support/cast_tensor.h"

namespace ferry::quantize {
namespace {

constexpr size_t kMostKept = size_t{64} << 20;  // bytes of answers
// Counts the rows whose largest answer, or whose number, is what the label says; labels that do not fit are left out.
bool CountRight(const Tensor& actual, const Tensor& expected, const std::vector<int64_t>& labels, int64_t& right,
                Faithfulness& found) {
  const bool is_whole = expected.dtype() == DType::kInt64;
  const int64_t width = is_whole || expected.rank() == 0 ? 1 : expected.shape().back();
  if (actual.shape() != expected.shape() || (width < 2 && !is_whole) ||
      expected.size() / width != static_cast<int64_t>(labels.size()))
    return false;
  auto answer = [&](const Tensor& of, int64_t row) -> int64_t {
    if (is_whole) return of.Data<int64_t>()[row];
    const float* begin = of.Data<float>() + row * width;
    return std::max_element(begin, begin + width) - begin;
  };
  for (size_t i = 0; i < labels.size(); ++i) {
    const bool is_right = answer(actual, static_cast<int64_t>(i)) == labels[i];
    const bool was_right = answer(expected, static_cast<int64_t>(i)) == labels[i];
    right += is_right, found.lost += was_right && !is_right, found.gained += is_right && !was_right;
  }
  found.labelled += static_cast<int64_t>(labels.size());
  return true;
}

// Seven parts of one and three of the other. Of whole numbers, which may be names of things, every third place or so
// is the other's; flags (masks among them) stay.
void BlendInto(Value& value, const Value& other, size_t seed) {
  if (!value.is_tensor() || !other.is_tensor()) return;
  const Tensor &a = value.tensor(), &b = other.tensor();
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return;
  Tensor blend = a.Clone();
  if (a.dtype() == DType::kFloat) {
    float* out = blend.MutableData<float>();
    for (int64_t i = 0; i < a.size(); ++i) out[i] = 0.7f * out[i] + 0.3f * b.Data<float>()[i];
  } else if (a.dtype() == DType::kInt64) {
    const std::set<int64_t> kinds(a.Data<int64_t>(), a.Data<int64_t>() + a.size());
    if (kinds.size() <= 2) return;
    uint64_t state = seed + 1;
    for (int64_t i = 0; i < a.size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      if (state >> 32 < 0.3 * 4294967296.0) blend.MutableData<int64_t>()[i] = b.Data<int64_t>()[i];
    }
  }
  value = std::move(blend);
}

}  // namespace

Judge::Judge(std::shared_ptr<Session> original, const Samples& samples, std::vector<size_t> chosen, bool blends)
    : original_(std::move(original)), samples_(samples), chosen_(std::move(chosen)), blends_(blends) {
  if (KeepAnswers())
    original_.reset();  // nothing more is asked of it
  else
    answers_.clear(), blend_answers_.clear();
}

bool Judge::KeepAnswers() {
  size_t bytes = 0;
  for (size_t place = 0; place < chosen_.size(); ++place) {
    answers_.push_back(Answers(*original_, samples_.Inputs(chosen_[place])));
    if (blends_) blend_answers_.push_back(Answers(*original_, Blend(place)));
    for (const auto* kept : {&answers_, &blend_answers_})
      for (const Tensor& answer : kept->empty() ? std::vector<Tensor>() : kept->back()) bytes += answer.bytes();
    if (bytes > kMostKept) return false;
  }
  return true;
}

std::vector<NamedValue> Judge::Blend(size_t place) const {
  std::vector<NamedValue> inputs = samples_.Inputs(chosen_[place]);
  const std::vector<NamedValue> others = samples_.Inputs(chosen_[(place + 1) % chosen_.size()]);
  for (size_t i = 0; i < inputs.size(); ++i) BlendInto(inputs[i].second, others[i].second, place);
  return inputs;
}

Judge Judge::Fewer(size_t count) const {
  Judge fewer(original_, samples_);
  fewer.chosen_.assign(chosen_.begin(), chosen_.begin() + static_cast<ptrdiff_t>(std::min(count, chosen_.size())));
  if (!answers_.empty())
    fewer.answers_.assign(answers_.begin(), answers_.begin() + static_cast<ptrdiff_t>(fewer.chosen_.size()));
  return fewer;
}

std::vector<Tensor> Judge::Answers(const Session& session, std::vector<NamedValue> inputs) {
  for (size_t i = 0; i < inputs.size() && i < session.inputs().size(); ++i) {
    const DType wanted = session.inputs()[i].type.dtype;
    if (inputs[i].second.tensor().dtype() != wanted) inputs[i].second = CastTensor(inputs[i].second.tensor(), wanted);
  }
  std::vector<Tensor> answers;
  for (const Value& value : session.Run(inputs)) {
    if (!value.is_tensor()) continue;
    const DType type = value.tensor().dtype();
    if (IsFloating(type)) answers.push_back(CastTensor(value.tensor(), DType::kFloat).Persistent());
    if (IsInteger(type) || type == DType::kBool)
      answers.push_back(CastTensor(value.tensor(), DType::kInt64).Persistent());
  }
  return answers;
}

Faithfulness Judge::Compare(const Session& other) const {
  Faithfulness found = Compare(other, [&](size_t place) { return samples_.Inputs(chosen_[place]); });
  for (size_t i = 0; blends_ && i < chosen_.size(); ++i) {
    const std::vector<Tensor> expected = blend_answers_.empty() ? Answers(*original_, Blend(i)) : blend_answers_[i];
    const std::vector<Tensor> actual = Answers(other, Blend(i));
    found.between.resize(expected.size());
    for (size_t k = 0; k < expected.size(); ++k)
      found.between[k].Add(actual[k], expected[k], samples_.rows(chosen_[i]));
  }
  return found;
}

Faithfulness Judge::Compare(const Session& other, const InputsAt& inputs) const {
  Faithfulness found;
  int64_t right = 0;
  for (size_t i = 0; i < chosen_.size(); ++i) {
    const std::vector<Tensor> expected =
        answers_.empty() ? Answers(*original_, samples_.Inputs(chosen_[i])) : answers_[i];
    const std::vector<Tensor> actual = Answers(other, inputs(i));
    Require(actual.size() == expected.size(), "the models have not as many outputs");
    found.outputs.resize(expected.size());
    double worst = kNoNoise;
    for (size_t k = 0; k < expected.size(); ++k)
      worst = std::min(worst, found.outputs[k].Add(actual[k], expected[k], samples_.rows(chosen_[i])).snr());
    found.samples.emplace_back(samples_.name(chosen_[i]), worst);
    const std::vector<int64_t> labels = samples_.Labels(chosen_[i]);
    // Scores are asked before names.
    bool counted = labels.empty();
    for (DType type : {DType::kFloat, DType::kInt64})
      for (size_t k = 0; k < expected.size() && !counted; ++k)
        if (expected[k].dtype() == type && (counted = CountRight(actual[k], expected[k], labels, right, found)))
          found.labelled_output = k;
  }
  found.snr = kNoNoise;
  for (const OutputEvidence& output : found.outputs) {
    const AnswerSums& sums = output.total();
    found.snr = std::min(found.snr, sums.snr());
    found.cosine = std::min(found.cosine, sums.cosine());
    if (sums.largest > 0) found.max_rel = std::max(found.max_rel, sums.difference / sums.largest);
    if (sums.rows > 0)
      found.agree = std::min(found.agree, 100.0 * static_cast<double>(sums.same) / static_cast<double>(sums.rows));
    found.finite &= sums.finite;
    found.rows = std::max(found.rows, sums.rows);
    found.numbers |= sums.numbers > 0;
  }
  if (found.labelled > 0) {
    const double all = static_cast<double>(found.labelled);
    found.top1 = 100.0 * static_cast<double>(right) / all;
    found.float_top1 = 100.0 * static_cast<double>(right + found.lost - found.gained) / all;
  }
  return found;
}

void Faithfulness::TakeLeads(const Faithfulness& others) {
  for (size_t k = 0; k < std::min(outputs.size(), others.outputs.size()); ++k) outputs[k].TakeLeads(others.outputs[k]);
  for (size_t k = 0; k < std::min(between.size(), others.between.size()); ++k) between[k].TakeLeads(others.between[k]);
}

Faithfulness Faithfulness::Assured(double confidence) const {
  Faithfulness assured = *this;
  assured.outputs.clear(), assured.between.clear();
  double flips = 0;
  auto count = [&](const OutputEvidence& output, bool is_labelled) {
    const double noise = output.NoiseRatio(confidence);
    if (noise > 0) assured.snr = std::min(assured.snr, -10 * std::log10(noise));
    assured.cosine = std::min(assured.cosine, 1 - output.CosineLoss(confidence));
    assured.max_rel = std::max(assured.max_rel, output.LargestPart(confidence));
    const double rate = output.FlipRate(confidence);
    assured.agree = std::min(assured.agree, 100 * (1 - rate));
    if (is_labelled) flips = rate;
    assured.finite &= output.total().finite;
  };
  for (const OutputEvidence& output : between) count(output, false);
  for (const OutputEvidence& output : outputs) count(output, &output == &outputs[labelled_output]);
  if (labelled == 0) return assured;
  // An answer moves where the first and the second are nearly equal, and there the second is right nearly as often:
  // half of those that move is more than is lost. Where that says too little, the balance of those that changed does.
  const double all = static_cast<double>(labelled), changed = std::max<double>(lost + gained, flips * all);
  const double balance = 100 * (static_cast<double>(lost - gained) + confidence * std::sqrt(changed)) / all;
  assured.top1 = *float_top1 - std::min(50 * flips, balance);
  return assured;
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

std::vector<NamedValue> MakeUpInputs(const std::vector<ValueInfo>& inputs) {
  constexpr int64_t kOpenSize = 16;
  std::vector<NamedValue> made;
  for (const ValueInfo& input : inputs) {
    Require(input.type.is_tensor() && input.type.shape, "input '", Printable(input.name), "' has no rank");
    Shape shape;
    for (size_t axis = 0; axis < input.type.shape->size(); ++axis)
      shape.push_back((*input.type.shape)[axis].value.value_or(axis == 0 ? 1 : kOpenSize));
    Tensor numbers(DType::kFloat, shape);
    for (int64_t i = 0; i < numbers.size(); ++i) numbers.MutableData<float>()[i] = static_cast<float>(i * 37 % 64) / 64;
    made.emplace_back(input.name, CastTensor(numbers, input.type.dtype));
  }
  return made;
}

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
