// The most likely sequences, several (beams) at a time for each input.
#include "ops/support/beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/support/softmax_line.h"

namespace ferry {
namespace {

struct Hypothesis {
  std::vector<int32_t> tokens;
  float score;
};

// The best finished sequences of one input, best first.
struct Hypotheses {
  std::vector<Hypothesis> best;
  size_t most = 0;
  float length_penalty = 1;
  bool is_done = false;

  float Score(float sum, size_t length) const { return sum / std::pow(static_cast<float>(length), length_penalty); }
  void Add(const std::vector<int32_t>& tokens, float sum) {
    float score = Score(sum, tokens.size());
    if (best.size() == most) {
      if (score <= best.back().score) return;
      best.pop_back();
    }
    auto place = std::find_if(best.begin(), best.end(), [&](const Hypothesis& h) { return score > h.score; });
    best.insert(place, {tokens, score});
  }
};

class BeamSearch {
 public:
  BeamSearch(OpContext& context, ScoreRules& rules, int64_t model)
      : context_(context),
        rules_(rules),
        beams_(IntInput(context, 3, "num_beams", 1)),
        returned_(IntInput(context, 4, "num_return_sequences", 1)),
        stops_early_(context.node().Int("early_stopping", 0) != 0),
        search_(context,
                {.min_length = 2,
                 .repetition_penalty = 6,
                 .vocab_mask = 7,
                 .prefix_vocab_mask = 8,
                 .attention_mask = 9,
                 .decoder_input_ids = 10,
                 .model = model},
                beams_) {
    Require(returned_ >= 1 && returned_ <= beams_, "num_return_sequences must be 1 to ", beams_, ", is ", returned_);
    Require(search_.model != TokenSearch::kGpt || !context.Has(10),
            "decoder_input_ids is for speech models (model_type 2)");
    Hypotheses none{.most = static_cast<size_t>(beams_), .length_penalty = FloatInput(context, 5, "length_penalty", 1)};
    finished_.assign(static_cast<size_t>(search_.batch), none);
    // All beams of an input begin alike: only the first one counts.
    for (int64_t b = 0; b < search_.batch * beams_; ++b) sums_.push_back(b % beams_ == 0 ? 0 : -1e9f);
  }

  void Run() {
    for (int64_t step = 0; !search_.IsFull(); ++step) {
      std::vector<float> scores = search_.NextLogits(from_);
      for (int64_t b = 0; b < search_.batch * beams_; ++b) {
        float* row = scores.data() + b * search_.words;
        LogSoftmaxLine(row, row, search_.words);
      }
      rules_.See(search_, scores, step);
      search_.Adjust(scores, step);
      rules_.Change(search_, scores);
      for (int64_t i = 0; i < static_cast<int64_t>(scores.size()); ++i)
        scores[static_cast<size_t>(i)] += sums_[static_cast<size_t>(i / search_.words)];
      kept_.insert(kept_.end(), scores.begin(), scores.end());
      Advance(scores);
      // As ONNX Runtime has it, nobody looks whether the encoder's first tokens are the last.
      if (step == 0 && search_.encoder_scores()) continue;
      if (std::all_of(finished_.begin(), finished_.end(), [](const Hypotheses& h) { return h.is_done; })) break;
    }
    Write();
  }

 private:
  struct Candidate {
    int64_t beam, token;
    float score;
  };

  // Twice as many candidates as beams, best first: enough even if half of them end a sequence.
  std::vector<Candidate> Candidates(const std::vector<float>& scores, int64_t image) const {
    int64_t count = beams_ * search_.words, wanted = std::min(2 * beams_, count);
    const float* part = scores.data() + image * count;
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + wanted, order.end(),
                      [&](int64_t a, int64_t b) { return part[a] != part[b] ? part[a] > part[b] : a < b; });
    std::vector<Candidate> candidates;
    for (int64_t i = 0; i < wanted; ++i) {
      int64_t at = order[static_cast<size_t>(i)];
      candidates.push_back({at / search_.words, at % search_.words, part[at]});
    }
    return candidates;
  }

  void Advance(const std::vector<float>& scores) {
    std::vector<Candidate> all;
    for (int64_t image = 0; image < search_.batch; ++image)
      for (const Candidate& candidate : Candidates(scores, image)) all.push_back(candidate);
    size_t each = all.size() / static_cast<size_t>(search_.batch);
    std::vector<std::vector<int32_t>> next;
    std::vector<float> sums;
    std::vector<int64_t> from;
    for (int64_t image = 0; image < search_.batch; ++image) {
      Hypotheses& finished = finished_[static_cast<size_t>(image)];
      std::span<const Candidate> mine{all.data() + static_cast<size_t>(image) * each, each};
      size_t before = next.size();
      for (size_t j = 0; j < mine.size() && next.size() - before < static_cast<size_t>(beams_) && !finished.is_done;
           ++j) {
        int64_t beam = image * beams_ + mine[j].beam;
        const std::vector<int32_t>& sequence = search_.sequences[static_cast<size_t>(beam)];
        if (search_.eos >= 0 && mine[j].token == search_.eos) {
          if (j < static_cast<size_t>(beams_)) finished.Add(sequence, mine[j].score);
          continue;
        }
        next.push_back(sequence);
        next.back().push_back(static_cast<int32_t>(mine[j].token));
        sums.push_back(mine[j].score);
        from.push_back(beam);
      }
      bool was_done = finished.is_done;
      while (next.size() - before < static_cast<size_t>(beams_)) {
        Require(was_done, "the decoder has too few words for ", beams_, " beams");
        next.push_back(search_.sequences[0]);
        next.back().push_back(static_cast<int32_t>(search_.pad));
        sums.push_back(0);
        from.push_back(0);
      }
      if (!was_done) finished.is_done = IsDone(finished, all, image);
    }
    search_.sequences = std::move(next);
    sums_ = std::move(sums);
    from_ = std::move(from);
  }

  // No candidate can be better any more. ONNX Runtime looks at candidates from image · beams on, which are this input's
  // for the first one only.
  bool IsDone(const Hypotheses& finished, const std::vector<Candidate>& all, int64_t image) const {
    if (finished.best.size() < finished.most) return false;
    if (stops_early_) return true;
    auto begin = static_cast<size_t>(image * beams_);
    float best = -HUGE_VALF;
    for (size_t i = begin; i < begin + static_cast<size_t>(2 * beams_) && i < all.size(); ++i)
      best = std::max(best, all[i].score);
    return finished.best.back().score >= finished.Score(best, search_.sequences[0].size());
  }

  void Write() {
    int64_t batch = search_.batch, longest = search_.max_length;
    Tensor& sequences = context_.Output(0, DType::kInt32, Shape{batch, returned_, longest});
    std::fill_n(sequences.MutableData<int32_t>(), sequences.size(), static_cast<int32_t>(search_.pad));
    Tensor& scores = context_.Output(1, DType::kFloat, Shape{batch, returned_});
    for (int64_t image = 0; image < batch; ++image) {
      Hypotheses& finished = finished_[static_cast<size_t>(image)];
      for (int64_t beam = image * beams_; beam < (image + 1) * beams_ && !finished.is_done; ++beam)
        finished.Add(search_.sequences[static_cast<size_t>(beam)], sums_[static_cast<size_t>(beam)]);
      for (int64_t i = 0; i < returned_; ++i) {
        const Hypothesis& one = finished.best[static_cast<size_t>(i)];
        std::copy(one.tokens.begin(), one.tokens.end(),
                  sequences.MutableData<int32_t>() + (image * returned_ + i) * longest);
        scores.MutableData<float>()[image * returned_ + i] = one.score;
      }
    }
    if (!context_.Wants(2)) return;
    Tensor& all = context_.Output(2, DType::kFloat, Shape{longest - search_.length, batch, beams_, search_.words});
    std::fill_n(all.MutableData<float>(), all.size(), 0.0f);
    std::copy(kept_.begin(), kept_.end(), all.MutableData<float>());
  }

  OpContext& context_;
  ScoreRules& rules_;
  const int64_t beams_, returned_;
  const bool stops_early_;
  TokenSearch search_;
  std::vector<Hypotheses> finished_;
  std::vector<float> sums_, kept_;
  std::vector<int64_t> from_;
};

}  // namespace

void RunBeamSearch(OpContext& context, ScoreRules& rules, int64_t model) { BeamSearch(context, rules, model).Run(); }

}  // namespace ferry
