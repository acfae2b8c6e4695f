#include "ops/support/token_search.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "ops/support/scalar.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

constexpr int64_t kLongest = 4096;
constexpr float kLowest = std::numeric_limits<float>::lowest();

// [2, beams, heads, length, size] with beams in another order.
Tensor PickBeams(const Tensor& past, std::span<const int64_t> from) {
  Shape shape = past.shape();
  shape[1] = static_cast<int64_t>(from.size());
  Tensor picked(past.dtype(), shape);
  size_t row = past.dim(1) > 0 ? past.bytes() / static_cast<size_t>(2 * past.dim(1)) : 0;
  for (size_t half = 0; half < 2; ++half)
    for (size_t i = 0; i < from.size() && row > 0; ++i)
      std::copy_n(past.raw() + (half * static_cast<size_t>(past.dim(1)) + static_cast<size_t>(from[i])) * row, row,
                  picked.mutable_raw() + (half * from.size() + i) * row);
  return picked;
}

}  // namespace

void TokenSearch::WriteSequences() const {
  Tensor& out = context_.Output(0, DType::kInt32, Shape{batch, max_length});
  std::fill_n(out.MutableData<int32_t>(), out.size(), static_cast<int32_t>(pad));
  for (size_t b = 0; b < sequences.size(); ++b)
    std::copy(sequences[b].begin(), sequences[b].end(),
              out.MutableData<int32_t>() + static_cast<int64_t>(b) * max_length);
}

int64_t IntInput(const OpContext& context, int place, const char* what, int64_t otherwise) {
  if (place < 0 || !context.Has(static_cast<size_t>(place))) return otherwise;
  return ScalarInt(context.Input(static_cast<size_t>(place)), what);
}

float FloatInput(const OpContext& context, int place, const char* what, float otherwise) {
  if (place < 0 || !context.Has(static_cast<size_t>(place))) return otherwise;
  return static_cast<float>(ScalarFloat(context.Input(static_cast<size_t>(place)), what));
}

TokenSearch::TokenSearch(OpContext& context, const Places& places, int64_t beams) : context_(context), beams_(beams) {
  const Node& node = context.node();
  Require(beams >= 1 && beams <= 128, "num_beams must be 1 to 128, is ", beams);
  model = node.Int("model_type", places.model);
  Require(model == kGpt || (places.decoder_input_ids >= 0 && (model == kT5 || model == kWhisper)),
          "only decoders of model_type 0 (GPT) are supported, not ", model);
  eos = node.Int("eos_token_id", -1);
  pad = node.Int("pad_token_id", 0);
  Require(pad >= std::numeric_limits<int32_t>::min() && pad <= std::numeric_limits<int32_t>::max(),
          "pad_token_id is no token: ", pad);
  no_repeat = node.Int("no_repeat_ngram_size", 0);
  Begin(places);
  max_length = IntInput(context, 1, "max_length", kLongest);
  Require(max_length > length && max_length <= kLongest, "max_length must be above the ", length,
          " tokens there are and at most ", kLongest, ", is ", max_length);
  min_length = IntInput(context, places.min_length, "min_length", 0);
  repetition_penalty = FloatInput(context, places.repetition_penalty, "repetition_penalty", 1);
  Require(repetition_penalty > 0, "repetition_penalty must be positive, is ", repetition_penalty);
  vocab_mask_ = MaskInput(places.vocab_mask, 0);
  prefix_vocab_mask_ = MaskInput(places.prefix_vocab_mask, 0);
  if (model == kGpt) FirstInputs(places);
}

// The tokens that all sequences begin with: the text, or what a decoder behind an encoder begins with.
void TokenSearch::Begin(const Places& places) {
  const Tensor& given = context_.Input(0);
  if (model == kWhisper) {
    Require(given.rank() == 3 && IsFloating(given.dtype()) && given.size() > 0,
            "a speech model takes features of three axes, not ", given.dtype(), given.shape());
  } else {
    Require(given.rank() == 2 && given.dtype() == DType::kInt32 && given.size() > 0,
            "input_ids must be a matrix of int32, is ", given.dtype(), given.shape());
  }
  batch = given.dim(0);
  std::vector<int32_t> first;
  if (model == kGpt) {
    Require(!context_.node().Has("encoder"), "a decoder of model_type 0 (GPT) has no encoder");
    first.assign(given.Span<int32_t>().begin(), given.Span<int32_t>().end());
  } else {
    first = BeginWithStartTokens(places);
  }
  length = static_cast<int64_t>(first.size()) / batch;
  for (int64_t b = 0; b < batch * beams_; ++b) {
    const int32_t* row = first.data() + b / beams_ * length;
    sequences.emplace_back(row, row + length);
  }
}

std::vector<int32_t> TokenSearch::BeginWithStartTokens(const Places& places) {
  const Tensor& given = context_.Input(0);
  std::optional<Tensor> mask;
  if (model == kT5) {
    // Padding in front of a text counts as none; at its end it may be the end itself.
    std::vector<int32_t> ones = MaskInput(places.attention_mask, given.size());
    const int32_t* ids = given.Data<int32_t>();
    for (int64_t i = 0; i < given.size() && static_cast<int64_t>(ones.size()) < given.size(); ++i)
      ones.push_back(ids[i] != pad || (i % given.dim(1) != 0 && ones.back() == 1) ? 1 : 0);
    mask = Tensor::FromVector(ones, given.shape());
  }
  pair_ = std::make_unique<EncoderDecoder>(context_, given, mask, beams_);
  const Tensor* begin = context_.OptionalInput(static_cast<size_t>(places.decoder_input_ids));
  if (begin) {
    Require(model == kWhisper, "decoder_input_ids is for speech models (model_type 2)");
    Require(begin->dtype() == DType::kInt32 && begin->rank() == 2 && begin->dim(0) == batch && begin->dim(1) > 0,
            "decoder_input_ids must have a row of int32 for each of ", batch, " inputs, is ", begin->dtype(),
            begin->shape());
    return {begin->Span<int32_t>().begin(), begin->Span<int32_t>().end()};
  }
  int64_t start = context_.node().Int("decoder_start_token_id", -1);
  Require(start >= 0 && start <= std::numeric_limits<int32_t>::max(), "decoder_start_token_id is no token: ", start);
  return std::vector<int32_t>(static_cast<size_t>(batch), static_cast<int32_t>(start));
}

std::vector<int32_t> TokenSearch::MaskInput(int place, int64_t count) const {
  if (place < 0 || !context_.Has(static_cast<size_t>(place))) return {};
  const Tensor& mask = context_.Input(static_cast<size_t>(place));
  Require(mask.dtype() == DType::kInt32 && (count == 0 || mask.size() == count), "a mask of ", count,
          " int32 is needed, is ", mask.dtype(), mask.shape());
  std::span<const int32_t> values = mask.Span<int32_t>();
  return {values.begin(), values.end()};
}

void TokenSearch::FirstInputs(const Places& places) {
  std::vector<int32_t> given = MaskInput(places.attention_mask, batch * length);
  std::vector<std::vector<int32_t>> positions;
  for (size_t b = 0; b < sequences.size(); ++b) {
    std::vector<int32_t> mask, places_of;
    int32_t position = 0;
    for (size_t i = 0; i < sequences[b].size(); ++i) {
      bool is_pad = sequences[b][i] == pad;
      size_t image = b / static_cast<size_t>(beams_);
      mask.push_back(given.empty() ? (is_pad ? 0 : 1) : given[image * static_cast<size_t>(length) + i]);
      places_of.push_back(is_pad ? 0 : position++);
    }
    positions_.push_back(position);
    masks_.push_back(std::move(mask));
    positions.push_back(std::move(places_of));
  }
  const std::shared_ptr<Graph>& decoder = context_.node().Subgraph("decoder");
  Require(decoder->inputs.size() >= 4 && decoder->outputs.size() == decoder->inputs.size() - 2,
          "the decoder must take input_ids, position_ids, attention_mask and pasts, and give logits and presents");
  inputs_ = {TokenTable(sequences), TokenTable(positions), TokenTable(masks_)};
  for (size_t i = 3; i < decoder->inputs.size(); ++i) {
    const Type& type = decoder->inputs[i].type;
    Require(type.shape && type.shape->size() == 5 && (*type.shape)[2].known() && (*type.shape)[4].known() &&
                *(*type.shape)[2].value > 0 && *(*type.shape)[4].value > 0 && IsFloating(type.dtype),
            "the decoder must say the heads and their size of '", Printable(decoder->inputs[i].name), "'");
    inputs_.emplace_back(
        Tensor(type.dtype, Shape{2, batch * beams_, *(*type.shape)[2].value, 0, *(*type.shape)[4].value}));
  }
}

void TokenSearch::NextInputs(std::span<const int64_t> from) {
  std::vector<std::vector<int32_t>> tokens, positions, masks;
  for (size_t b = 0; b < sequences.size(); ++b) {
    tokens.push_back({sequences[b].back()});
    positions.push_back({static_cast<int32_t>(positions_[b]++)});
    masks_[b].push_back(1);
  }
  inputs_[0] = TokenTable(tokens);
  inputs_[1] = TokenTable(positions);
  inputs_[2] = TokenTable(masks_);
  if (beams_ == 1) return;
  for (size_t i = 3; i < inputs_.size(); ++i) inputs_[i] = PickBeams(inputs_[i].tensor(), from);
}

Value TokenSearch::RunDecoder(std::span<const int64_t> from) {
  if (runs_ > 0) NextInputs(from);
  bool first = runs_++ == 0 && context_.node().Has("init_decoder");
  std::vector<Value> outputs = context_.subgraph(first ? "init_decoder" : "decoder").Run(inputs_);
  Require(outputs.size() + 2 == inputs_.size() && outputs[0].is_tensor(), "the decoder gave ", outputs.size(),
          " outputs, ", inputs_.size() - 2, " are needed");
  for (size_t i = 1; i < outputs.size(); ++i) {
    Require(outputs[i].is_tensor() && outputs[i].tensor().rank() == 5 && outputs[i].tensor().dim(0) == 2 &&
                outputs[i].tensor().dim(1) == batch * beams_,
            "the decoder's memory must have shape [2, ", batch * beams_, ", heads, length, size]");
    inputs_[i + 2] = outputs[i];
  }
  return outputs[0];
}

std::vector<float> TokenSearch::NextLogits(std::span<const int64_t> from) {
  context_.CheckCancelled();
  return LastScores(pair_ ? pair_->Next(sequences, from) : RunDecoder(from));
}

// Of the last token, for each beam; an encoder scores each input once.
std::vector<float> TokenSearch::LastScores(const Value& scores) {
  Require(scores.is_tensor(), "the decoder's logits must be a tensor");
  Tensor logits = WidenToFloat(scores.tensor());
  int64_t each = beams_;
  if (logits.rank() == 3 && logits.dim(0) == batch * beams_) each = 1;
  Require(logits.dtype() == DType::kFloat && logits.rank() == 3 && logits.dim(0) * each == batch * beams_ &&
              logits.dim(1) > 0 && logits.dim(2) > 0,
          "the decoder's logits must have shape [", batch * beams_, ", length, words], have ", logits.shape());
  int64_t width = logits.dim(2), asked = context_.node().Int("vocab_size", -1);
  Require(asked <= width, "vocab_size is ", asked, ", the decoder has ", width, " words");
  Require(words == 0 || words == (asked > 0 ? asked : width), "the decoder changes its number of words");
  words = asked > 0 ? asked : width;
  Require(vocab_mask_.empty() || static_cast<int64_t>(vocab_mask_.size()) == words, "vocab_mask must have ", words,
          " numbers, has ", vocab_mask_.size());
  Require(prefix_vocab_mask_.empty() || static_cast<int64_t>(prefix_vocab_mask_.size()) == batch * words,
          "prefix_vocab_mask must have ", batch * words, " numbers, has ", prefix_vocab_mask_.size());
  std::vector<float> last;
  for (int64_t b = 0; b < batch * beams_; ++b) {
    const float* row = logits.Data<float>() + ((b / each + 1) * logits.dim(1) - 1) * width;
    last.insert(last.end(), row, row + words);
  }
  return last;
}

void TokenSearch::Adjust(std::vector<float>& scores, int64_t step) const {
  auto is_word = [&](int32_t token) { return token >= 0 && token < words; };
  for (size_t b = 0; b < sequences.size(); ++b) {
    const std::vector<int32_t>& sequence = sequences[b];
    float* row = scores.data() + static_cast<int64_t>(b) * words;
    if (repetition_penalty != 1)
      for (int32_t token : std::set<int32_t>(sequence.begin(), sequence.end()))
        if (is_word(token))
          row[token] = row[token] < 0 ? row[token] * repetition_penalty : row[token] / repetition_penalty;
    auto count = static_cast<int64_t>(sequence.size());
    if (no_repeat > 0 && no_repeat <= count)
      for (int64_t i = 0; i + no_repeat <= count; ++i) {
        int32_t token = sequence[static_cast<size_t>(i + no_repeat - 1)];
        if (is_word(token) &&
            std::equal(sequence.begin() + i, sequence.begin() + i + no_repeat - 1, sequence.end() - (no_repeat - 1)))
          row[token] = kLowest;
      }
    const int32_t* prefix =
        prefix_vocab_mask_.empty() ? nullptr : prefix_vocab_mask_.data() + static_cast<int64_t>(b) / beams_ * words;
    for (int64_t word = 0; word < words; ++word) {
      if (!vocab_mask_.empty() && vocab_mask_[static_cast<size_t>(word)] == 0) row[word] = kLowest;
      if (prefix && step == 0 && prefix[word] == 0) row[word] = kLowest;
    }
    if (count < min_length && eos >= 0 && eos < words) row[eos] = kLowest;
  }
}

void InferTokenSearch(InferContext& context) {
  for (const char* name : {"encoder", "init_decoder", "decoder"}) {
    if (!context.node().Has(name)) continue;
    std::vector<ValueFacts> inputs;
    for (const ValueInfo& input : context.node().Subgraph(name)->inputs) inputs.push_back({.type = input.type});
    context.InferSubgraph(name, inputs);
  }
  context.SetOutput(0, DType::kInt32);
  for (size_t i = 1; i < context.output_count(); ++i) context.SetOutput(i, DType::kFloat);
}

}  // namespace ferry
