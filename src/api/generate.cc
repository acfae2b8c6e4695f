#include <cmath>

#include "api/handles.h"
#include "generate/generator.h"

using namespace ferry;
using namespace ferry::api;

struct ferry_tokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;
};

struct ferry_generator {
  std::shared_ptr<const Generator> generator;
};

struct ferry_generate_options {
  GenerateOptions options;
  std::atomic<bool> cancelled{false};
};

struct ferry_generated {
  Generated generated;
  std::vector<int64_t> ids;
};

namespace {

std::string_view TextOf(const char* text, size_t length, const char* name) {
  if (length > 0) RequirePointer(text, name);
  return {length > 0 ? text : "", length};
}

int64_t ToWhole(const char* name, double value) {
  constexpr double kMost = 9007199254740992.0;  // doubles count so far without leaving one out
  Require(value >= 0 && value <= kMost && value == std::floor(value), name, " must be a whole number, 0 or more, is ",
          value);
  return static_cast<int64_t>(value);
}

}  // namespace

ferry_status* ferry_tokenizer_open(const char* path, ferry_tokenizer** out) {
  return Guard([&] {
    RequirePointer(path, "path");
    RequirePointer(out, "out");
    *out = new ferry_tokenizer{Tokenizer::Open(path)};
  });
}

void ferry_tokenizer_free(ferry_tokenizer* tokenizer) { delete tokenizer; }

size_t ferry_tokenizer_size(const ferry_tokenizer* tokenizer) { return tokenizer ? tokenizer->tokenizer->size() : 0; }

int64_t ferry_tokenizer_find(const ferry_tokenizer* tokenizer, const char* token) {
  int64_t id = -1;
  ferry_status_free(Guard([&] {
    if (tokenizer && token) id = tokenizer->tokenizer->Find(token);
  }));
  return id;
}

ferry_status* ferry_tokenizer_encode(const ferry_tokenizer* tokenizer, const char* text, size_t length, int add_special,
                                     ferry_value** out) {
  return Guard([&] {
    RequirePointer(tokenizer, "tokenizer");
    const std::vector<TokenId> ids = tokenizer->tokenizer->Encode(TextOf(text, length, "text"), add_special != 0);
    Give(out, Tensor::FromVector(std::vector<int64_t>(ids.begin(), ids.end())));
  });
}

ferry_status* ferry_tokenizer_decode(const ferry_tokenizer* tokenizer, const int64_t* ids, size_t count,
                                     int skip_special, ferry_value** out) {
  return Guard([&] {
    RequirePointer(tokenizer, "tokenizer");
    if (count > 0) RequirePointer(ids, "ids");
    std::vector<TokenId> tokens;
    for (size_t i = 0; i < count; ++i) {
      Require(ids[i] >= 0 && ids[i] < kMostTokens, "the tokenizer has no token ", ids[i]);
      tokens.push_back(static_cast<TokenId>(ids[i]));
    }
    Give(out, Tensor::FromVector(std::vector<std::string>{tokenizer->tokenizer->Decode(tokens, skip_special != 0)}));
  });
}

ferry_status* ferry_generate_options_create(ferry_generate_options** out) {
  return Guard([&] {
    RequirePointer(out, "out");
    *out = new ferry_generate_options;
    (*out)->options.cancelled = &(*out)->cancelled;
  });
}

void ferry_generate_options_free(ferry_generate_options* options) { delete options; }

ferry_status* ferry_generate_options_set(ferry_generate_options* options, const char* given, double value) {
  return Guard([&] {
    RequirePointer(options, "options");
    RequirePointer(given, "name");
    const std::string_view name = given;
    GenerateOptions changed = options->options;
    SamplingOptions& sampling = changed.sampling;
    if (name == "max_tokens") {
      changed.max_tokens = ToWhole(given, value);
    } else if (name == "context") {
      changed.context = ToWhole(given, value);
    } else if (name == "top_k") {
      sampling.top_k = ToWhole(given, value);
    } else if (name == "seed") {
      sampling.seed = static_cast<uint64_t>(ToWhole(given, value));
    } else if (name == "add_special") {
      changed.add_special = ToWhole(given, value) != 0;
    } else if (name == "temperature") {
      sampling.temperature = value;
    } else if (name == "top_p") {
      sampling.top_p = value;
    } else if (name == "min_p") {
      sampling.min_p = value;
    } else if (name == "repetition_penalty") {
      sampling.repetition_penalty = value;
    } else {
      Fail(ErrorCode::kInvalidArgument, "there is no option '", Printable(name),
           "'; there are max_tokens, context, temperature, top_k, top_p, min_p, repetition_penalty, seed, add_special");
    }
    Sampler check(sampling);  // refuses what cannot be
    options->options = std::move(changed);
  });
}

ferry_status* ferry_generate_options_add_stop(ferry_generate_options* options, const char* word) {
  return Guard([&] {
    RequirePointer(options, "options");
    RequirePointer(word, "word");
    Require(*word != 0, "a stop word must not be empty");
    options->options.stop.emplace_back(word);
  });
}

ferry_status* ferry_generate_options_set_on_text(ferry_generate_options* options,
                                                 int (*on_text)(void* user, const char* text, size_t length),
                                                 void* user) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->options.on_text = nullptr;
    if (on_text)
      options->options.on_text = [on_text, user](std::string_view text) {
        return on_text(user, text.data(), text.size()) != 0;
      };
  });
}

void ferry_generate_options_cancel(ferry_generate_options* options) {
  if (options) options->cancelled.store(true, std::memory_order_relaxed);
}

ferry_status* ferry_generator_open(const char* model, const char* tokenizer, const ferry_options* options,
                                   ferry_generator** out) {
  return Guard([&] {
    RequirePointer(model, "model");
    RequirePointer(tokenizer, "tokenizer");
    RequirePointer(out, "out");
    *out = new ferry_generator{Generator::Open(model, tokenizer, options ? options->options : SessionOptions{})};
  });
}

void ferry_generator_free(ferry_generator* generator) { delete generator; }

ferry_status* ferry_generate(const ferry_generator* generator, const ferry_generate_options* options,
                             const char* prompt, size_t length, ferry_generated** out) {
  return Guard([&] {
    RequirePointer(generator, "generator");
    RequirePointer(out, "out");
    const std::string_view text = TextOf(prompt, length, "prompt");
    Generated made = generator->generator->Generate(text, options ? options->options : GenerateOptions{});
    std::vector<int64_t> ids(made.ids.begin(), made.ids.end());
    *out = new ferry_generated{std::move(made), std::move(ids)};
  });
}

void ferry_generated_free(ferry_generated* generated) { delete generated; }

const char* ferry_generated_text(const ferry_generated* generated, size_t* length) {
  if (length) *length = generated ? generated->generated.text.size() : 0;
  return generated ? generated->generated.text.c_str() : "";
}

const int64_t* ferry_generated_ids(const ferry_generated* generated, size_t* count) {
  if (count) *count = generated ? generated->ids.size() : 0;
  return generated ? generated->ids.data() : nullptr;
}

const char* ferry_generated_reason(const ferry_generated* generated) {
  return generated ? ToText(generated->generated.reason) : "";
}

size_t ferry_generated_prompt_count(const ferry_generated* generated) {
  return generated ? generated->generated.prompt.size() : 0;
}

double ferry_generated_prompt_seconds(const ferry_generated* generated) {
  return generated ? generated->generated.prompt_seconds : 0;
}

double ferry_generated_seconds(const ferry_generated* generated) {
  return generated ? generated->generated.seconds : 0;
}
