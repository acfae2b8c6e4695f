#include "generate/generator.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"

namespace ferry {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Text that is sure: what may yet become a stop word is held back.
class StopWords {
 public:
  explicit StopWords(const std::vector<std::string>& words) : words_(words) {
    for (const std::string& word : words) Require(!word.empty(), "a stop word must not be empty");
  }

  // What can be shown; `found` once a stop word came, with what lies before it.
  std::string Add(std::string_view text, bool& found) {
    held_ += text;
    size_t first = std::string::npos;
    for (const std::string& word : words_) first = std::min(first, held_.find(word));
    found = first != std::string::npos;
    const size_t sure = found ? first : held_.size() - Pending();
    std::string out = held_.substr(0, sure);
    held_.erase(0, sure);
    return out;
  }
  std::string Rest() const { return held_; }

 private:
  // How many bytes at the end begin a stop word.
  size_t Pending() const {
    size_t longest = 0;
    for (const std::string& word : words_)
      for (size_t length = std::min(word.size() - 1, held_.size()); length > longest; --length)
        if (held_.compare(held_.size() - length, length, word, 0, length) == 0) longest = length;
    return longest;
  }

  const std::vector<std::string>& words_;
  std::string held_;
};

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

const Json* FindPath(const Json& json, std::string_view outer, std::string_view key) {
  const Json* inside = outer.empty() ? &json : json.Find(outer);
  return inside && inside->is_object() ? inside->Find(key) : nullptr;
}

std::optional<Json> ReadJson(const std::string& path) try {
  return Json::Parse(MappedFile::Open(path)->text(), {.depth = 50, .bytes = size_t{1} << 20, .values = 100'000});
} catch (const Error&) {
  return std::nullopt;
}

// onnxruntime-genai's own names of a decoder's inputs and outputs.
void AddHints(const Json& config, LanguageModelNames& names) {
  const Json* model = FindPath(config, "", "model");
  const Json* decoder = model && model->is_object() ? model->Find("decoder") : nullptr;
  if (!decoder || !decoder->is_object()) return;
  const auto text = [&](const char* part, const char* key) {
    const Json* found = FindPath(*decoder, part, key);
    return found && found->is_string() ? found->AsString() : std::string();
  };
  for (const auto& [role, key] : {std::pair{"input_ids", "input_ids"},
                                  {"attention_mask", "attention_mask"},
                                  {"position_ids", "position_ids"},
                                  {"past_length", "past_sequence_length"},
                                  {"total_length", "total_sequence_length"}})
    if (std::string name = text("inputs", key); !name.empty()) names.hinted_roles[role] = std::move(name);
  if (std::string name = text("outputs", "logits"); !name.empty()) names.hinted_roles["logits"] = std::move(name);
  for (const auto& [past, present] : {std::pair{"past_key_names", "present_key_names"},
                                      {"past_value_names", "present_value_names"},
                                      {"past_names", "present_names"}})
    if (std::string in = text("inputs", past), out = text("outputs", present); !in.empty() && !out.empty())
      names.hinted_caches.emplace_back(std::move(in), std::move(out));
}

}  // namespace

const char* ToText(StopReason reason) {
  switch (reason) {
    case StopReason::kMaxTokens: return "max-tokens";
    case StopReason::kStopToken: return "stop-token";
    case StopReason::kStopWord: return "stop-word";
    case StopReason::kWindow: return "window";
    case StopReason::kCaller: return "caller";
  }
  return "";
}

Generator::Generator(std::shared_ptr<const LanguageModel> model, std::shared_ptr<const Tokenizer> tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), window_(model_->window().value_or(0)) {}

std::shared_ptr<const Generator> Generator::Open(const std::string& model, const std::string& tokenizer,
                                                 const SessionOptions& options, const LanguageModelNames& names) {
  std::shared_ptr<const Tokenizer> reader = Tokenizer::Open(tokenizer);  // the quicker one first
  LanguageModelNames known = names;
  if (const auto config = ReadJson(FolderOf(model) + "/genai_config.json")) AddHints(*config, known);
  auto made = std::make_shared<Generator>(std::make_shared<const LanguageModel>(model, options, known), reader);
  for (const std::string& folder : {FolderOf(model), FolderOf(model) + "/..", FolderOf(tokenizer)})
    made->ReadConfiguration(folder);
  if (made->stop_tokens_.empty())
    for (const char* usual :
         {"</s>", "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<eos>", "<end_of_turn>", "<|end|>"})
      if (const TokenId id = reader->Find(usual); id != kNoToken && reader->IsSpecial(id))
        made->stop_tokens_.push_back(id);
  return made;
}

// What these files say is taken where it makes sense and left where it does not: the text is made without it, too.
void Generator::ReadConfiguration(const std::string& folder) {
  for (const char* name : {"/generation_config.json", "/config.json", "/genai_config.json"}) try {
      const std::optional<Json> json = ReadJson(folder + name);
      if (!json) continue;
      for (const char* outer : {"", "model"}) {
        const Json* end = FindPath(*json, outer, "eos_token_id");
        for (const Json& id : end && end->is_array() ? end->AsArray() : Json::Array{end ? *end : Json()})
          if (id.is_integer() && id.AsInt() >= 0 && id.AsInt() < kMostTokens)
            stop_tokens_.push_back(static_cast<TokenId>(id.AsInt()));
        for (const char* key : {"max_position_embeddings", "n_positions", "context_length"})
          if (const Json* most = FindPath(*json, outer, key); most && most->is_integer() && most->AsInt() > 0)
            window_ = window_ > 0 ? std::min(window_, most->AsInt()) : most->AsInt();
      }
    } catch (const Error&) {
    }
}

Generated Generator::Generate(std::string_view prompt, const GenerateOptions& options) const {
  Require(options.max_tokens >= 0, "max-tokens must be 0 or more, is ", options.max_tokens);
  Require(options.context >= 0, "context must be 0 or more, is ", options.context);
  constexpr int64_t kMostTokensOfText = int64_t{1} << 31;
  Sampler sampler(options.sampling);
  Generated made;
  made.prompt = tokenizer_->Encode(prompt, options.add_special);
  Require(!made.prompt.empty(), "the prompt has no tokens, and the tokenizer puts none in front of a text");
  int64_t window = options.context > 0 ? options.context : window_;
  if (options.context > 0 && window_ > 0) window = std::min(window, window_);
  const auto read = static_cast<int64_t>(made.prompt.size());
  Require(window == 0 || read <= window, "the prompt has ", read, " tokens, the model's window ", window);
  const int64_t wanted = std::min(read + std::min(options.max_tokens, kMostTokensOfText - read), kMostTokensOfText);
  const int64_t most = window > 0 ? std::min(window, wanted) : wanted;

  Decoding decoding(*model_, most);
  TextStream stream(tokenizer_);
  StopWords stop(options.stop);
  std::vector<TokenId> all = made.prompt, next = made.prompt;
  bool goes_on = true;
  auto show = [&](std::string_view text) {
    made.text += text;
    if (!text.empty() && options.on_text && !options.on_text(text)) {
      goes_on = false;
      made.reason = StopReason::kCaller;
    }
  };
  Clock::time_point begin = Clock::now();
  bool found = false;
  while (goes_on && static_cast<int64_t>(made.ids.size()) < options.max_tokens) {
    std::vector<float> scores = decoding.Read(next, options.cancelled);
    if (made.ids.empty()) {
      made.prompt_seconds = SecondsSince(begin);
      begin = Clock::now();
    }
    next = {sampler.Pick(scores, all)};
    all.push_back(next[0]);
    made.ids.push_back(next[0]);
    auto ends = [&](const std::vector<TokenId>& ids) {
      return std::find(ids.begin(), ids.end(), next[0]) != ids.end();
    };
    if (ends(stop_tokens_) || ends(options.stop_tokens)) {
      made.reason = StopReason::kStopToken;
      break;
    }
    // A model may have more scores than its tokenizer has tokens: padding, which has no text.
    if (tokenizer_->TextOf(next[0])) show(stop.Add(stream.Add(next[0]), found));
    if (found) {
      made.reason = StopReason::kStopWord;
      break;
    }
    if (goes_on && static_cast<int64_t>(made.ids.size()) < options.max_tokens && decoding.length() >= most) {
      made.reason = StopReason::kWindow;
      break;
    }
  }
  if (!found && goes_on) show(stop.Add(stream.Finish(), found));
  if (!found && goes_on) show(stop.Rest());
  if (!made.ids.empty()) made.seconds = SecondsSince(begin);
  return made;
}

}  // namespace ferry
