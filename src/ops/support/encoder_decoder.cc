#include "ops/support/encoder_decoder.h"

#include <cstring>
#include <string>
#include <utility>

namespace ferry {
namespace {

// Rows of the first axis, in this order; a row may come more than once.
Tensor PickRows(const Tensor& tensor, std::span<const int64_t> rows) {
  Shape shape = tensor.shape();
  shape[0] = static_cast<int64_t>(rows.size());
  Tensor picked(tensor.dtype(), shape);
  const size_t row = tensor.dim(0) > 0 ? tensor.bytes() / static_cast<size_t>(tensor.dim(0)) : 0;
  for (size_t i = 0; i < rows.size() && row > 0; ++i)
    std::memcpy(picked.mutable_raw() + i * row, tensor.raw() + static_cast<size_t>(rows[i]) * row, row);
  return picked;
}

// Each input's rows once for each of its beams.
Tensor ForBeams(const Value& value, int64_t batch, int64_t beams, const char* what) {
  Require(value.is_tensor() && value.tensor().rank() >= 2 && value.tensor().dim(0) == batch, what,
          " must have a row for each of ", batch, " inputs");
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < batch * beams; ++i) rows.push_back(i / beams);
  return PickRows(value.tensor(), rows);
}

}  // namespace

Tensor TokenTable(const std::vector<std::vector<int32_t>>& rows) {
  std::vector<int32_t> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return Tensor::FromVector(all, Shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())});
}

EncoderDecoder::EncoderDecoder(OpContext& context, const Tensor& input, std::optional<Tensor> mask, int64_t beams)
    : context_(context), input_(input), mask_(std::move(mask)), beams_(beams) {
  Require(context.node().Has("encoder"), "a model of type ", context.node().Int("model_type", 2), " needs an encoder");
  const Graph& encoder = *context.node().Subgraph("encoder");
  Require(!encoder.outputs.empty(), "the encoder gives nothing");
  encoder_scores_ = encoder.outputs[0].name == "logits";
  FindDecoderInputs();
}

void EncoderDecoder::FindDecoderInputs() {
  const Graph& decoder = *context_.node().Subgraph("decoder");
  for (size_t i = 0; i < decoder.inputs.size(); ++i) {
    const std::string& name = decoder.inputs[i].name;
    Require(name != "past_sequence_length" && name != "beam_width" && name != "cache_indirection", "the decoder's '",
            name,
            "' is for a cache that past and present share, which ONNX Runtime has on GPUs only; export it without");
    if (name != "input_ids" && name != "encoder_input_ids" && name != "encoder_attention_mask" &&
        name != "encoder_hidden_states")
      caches_.push_back(i);
  }
  Require(!decoder.inputs.empty() && decoder.inputs[0].name == "input_ids" && !caches_.empty() &&
              caches_.size() % 4 == 0 && decoder.outputs.size() == 1 + caches_.size() / 2,
          "the decoder must take input_ids, and for each layer keys and values of the tokens and of the input, and "
          "give logits and the keys and values of the tokens; it has ",
          decoder.inputs.size(), " inputs and ", decoder.outputs.size(), " outputs");
  const auto& shape = decoder.inputs[0].type.shape;
  whole_sequences_ = !(shape && shape->size() == 2 && (*shape)[1].known() && *(*shape)[1].value == 1);
  inputs_.resize(decoder.inputs.size());
}

Value EncoderDecoder::Next(const std::vector<std::vector<int32_t>>& sequences, std::span<const int64_t> from) {
  if (encodings_++ == 0) {
    Value scores = Encode(sequences);
    if (encoder_scores_) return scores;
  }
  return Decode(sequences, from);
}

Value EncoderDecoder::Encode(const std::vector<std::vector<int32_t>>& sequences) {
  const Graph& encoder = *context_.node().Subgraph("encoder");
  std::vector<Value> given;
  for (const ValueInfo& input : encoder.inputs) {
    if (input.name == "decoder_input_ids") {
      std::vector<std::vector<int32_t>> first;
      for (size_t i = 0; i < sequences.size(); i += static_cast<size_t>(beams_)) first.push_back(sequences[i]);
      given.emplace_back(TokenTable(first));
    } else if (input.name == "encoder_attention_mask" && mask_) {
      given.emplace_back(*mask_);
    } else {
      Require(input.name == "encoder_input_ids", "nobody knows what to give to the encoder's '", Printable(input.name),
              "'");
      given.emplace_back(input_);
    }
  }
  std::vector<Value> encoded = context_.subgraph("encoder").Run(given);
  Remember(encoded);
  return encoded[0];
}

// Puts what the encoder found in the decoder's inputs, once for each beam.
void EncoderDecoder::Remember(const std::vector<Value>& encoded) {
  const int64_t batch = input_.dim(0);
  const size_t before = encoder_scores_ ? 2 : 0, wanted = encoder_scores_ ? caches_.size() : caches_.size() / 2;
  Require(encoded.size() == before + wanted, "the encoder gave ", encoded.size(), " outputs, the decoder needs ",
          before + wanted);
  const Graph& decoder = *context_.node().Subgraph("decoder");
  for (size_t i = 1; i < decoder.inputs.size(); ++i) {
    const std::string& name = decoder.inputs[i].name;
    if (name == "encoder_input_ids") inputs_[i] = ForBeams(input_, batch, beams_, "the input");
    if (name == "encoder_attention_mask") {
      Require(mask_.has_value(), "the decoder takes an encoder_attention_mask, which speech models have none of");
      inputs_[i] = ForBeams(*mask_, batch, beams_, "the mask");
    }
    if (name == "encoder_hidden_states") {
      Require(encoder_scores_, "the encoder does not give its hidden states, which the decoder takes");
      inputs_[i] = ForBeams(encoded[1], batch, beams_, "the encoder's hidden states");
    }
  }
  for (size_t i = 0; i < wanted; ++i) {
    const Value& value = encoded[before + i];
    Require(value.is_tensor() && value.tensor().rank() == 4, "the encoder's keys and values must have four axes");
    Tensor cache = ForBeams(value, batch, beams_, "the encoder's keys and values");
    if (!encoder_scores_)  // nothing is known of the tokens yet
      inputs_[caches_[i]] = Tensor(cache.dtype(), Shape{cache.dim(0), cache.dim(1), 0, cache.dim(3)});
    inputs_[caches_[encoder_scores_ ? i : wanted + i]] = std::move(cache);
  }
}

Value EncoderDecoder::Decode(const std::vector<std::vector<int32_t>>& sequences, std::span<const int64_t> from) {
  const size_t own = caches_.size() / 2;
  if (decodings_++ > 0 && beams_ > 1)
    for (size_t i = 0; i < own; ++i) inputs_[caches_[i]] = PickRows(inputs_[caches_[i]].tensor(), from);
  if (whole_sequences_) {
    inputs_[0] = TokenTable(sequences);
  } else {
    std::vector<std::vector<int32_t>> last;
    for (const auto& sequence : sequences) last.push_back({sequence.back()});
    inputs_[0] = TokenTable(last);
  }
  std::vector<Value> outputs = context_.subgraph("decoder").Run(inputs_);
  Require(outputs.size() == 1 + own, "the decoder gave ", outputs.size(), " outputs, ", 1 + own, " are needed");
  for (size_t i = 0; i < own; ++i) {
    Require(outputs[1 + i].is_tensor() && outputs[1 + i].tensor().rank() == 4 &&
                outputs[1 + i].tensor().dim(0) == static_cast<int64_t>(sequences.size()),
            "the decoder's keys and values must have four axes, the first of ", sequences.size());
    inputs_[caches_[i]] = outputs[1 + i];
  }
  return outputs[0];
}

}  // namespace ferry
