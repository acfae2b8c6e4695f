// Text from a language model: the prompt's tokens in, one token after the other out.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "generate/language_model.h"
#include "generate/sampler.h"
#include "generate/tokenizer.h"

namespace ferry {

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 256;
  int64_t context = 0;               // tokens of prompt and answer together; 0: what the model says
  std::vector<std::string> stop;     // words that end the text; they are not part of it
  std::vector<TokenId> stop_tokens;  // beside those that the model's files name
  bool add_special = true;           // to the prompt
  const std::atomic<bool>* cancelled = nullptr;
  // Told of text as soon as it is sure; false ends it there.
  std::function<bool(std::string_view text)> on_text;
};

enum class StopReason : uint8_t { kMaxTokens, kStopToken, kStopWord, kWindow, kCaller };
const char* ToText(StopReason reason);  // "max-tokens", "stop-token", "stop-word", "window", "caller"

struct Generated {
  std::vector<TokenId> prompt, ids;  // the last of `ids` is the stop token, where one ended it
  std::string text;
  StopReason reason = StopReason::kMaxTokens;
  double prompt_seconds = 0, seconds = 0;  // until the first token; for the others
};

// May be used by many threads at once: each text has a cache of its own.
class Generator {
 public:
  Generator(std::shared_ptr<const LanguageModel> model, std::shared_ptr<const Tokenizer> tokenizer);
  // Tokens that end a text and the length of the window come from config.json, generation_config.json and
  // genai_config.json beside the model, in the folder above it, or beside the tokenizer.
  static std::shared_ptr<const Generator> Open(const std::string& model, const std::string& tokenizer,
                                               const SessionOptions& options = {},
                                               const LanguageModelNames& names = {});

  Generated Generate(std::string_view prompt, const GenerateOptions& options = {}) const;

  const LanguageModel& model() const { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<TokenId>& stop_tokens() const { return stop_tokens_; }
  int64_t window() const { return window_; }  // 0: not known

 private:
  void ReadConfiguration(const std::string& folder);

  std::shared_ptr<const LanguageModel> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<TokenId> stop_tokens_;
  int64_t window_ = 0;
};

}  // namespace ferry
