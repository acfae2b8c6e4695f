#include <cstdio>

#include "base/directory.h"
#include "base/mapped_file.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "generate/generator.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {kModelPosition};

constexpr Option kOptions[] = {
    {.name = "tokenizer",
     .value = "FILE",
     .help = "Hugging Face's tokenizer.json (usually the one beside the model)",
     .completes = Completes::kFile},
    {.name = "prompt", .value = "TEXT", .help = "what the text begins with; it is not printed again"},
    {.name = "prompt-file", .value = "FILE", .help = "the same from a file", .completes = Completes::kFile},
    {.name = "max-tokens", .value = "N", .help = "stop after so many tokens (usually 256)"},
    {.name = "temperature",
     .value = "T",
     .help = "above 0: draw tokens by their probability, flatter the higher T is (usually 0: always the best)"},
    {.name = "top-k", .value = "K", .help = "draw among the K best tokens (usually all)"},
    {.name = "top-p", .value = "P", .help = "draw among the best tokens that together have the share P (usually 1)"},
    {.name = "min-p",
     .value = "P",
     .help = "draw among tokens with at least the share P of the best one's (usually 0)"},
    {.name = "repetition-penalty",
     .value = "R",
     .help = "above 1: tokens that were there before are less likely (usually 1)"},
    {.name = "seed", .value = "N", .help = "of what is drawn: the same seed gives the same text (usually 0)"},
    {.name = "stop", .value = "WORD", .help = "end the text before this word", .repeated = true},
    {.name = "stop-token",
     .value = "TOKEN",
     .help = "end the text at this token, beside those that the model's files name",
     .repeated = true},
    {.name = "context",
     .value = "N",
     .help = "tokens of prompt and answer together (usually what the model says, or as many as come)"},
    {.name = "plain-prompt", .help = "without the tokens that the tokenizer puts around a text"},
    {.name = "name",
     .value = "ROLE=NAME",
     .help =
         "the input or output for input_ids, attention_mask, position_ids, use_cache_branch, past_length, total_length "
         "or logits, where its name does not tell",
     .repeated = true},
    {.name = "past",
     .value = "PAST=PRESENT",
     .help = "an input of the cache and the output that goes there in the next step",
     .repeated = true},
    kThreadsOption,
    kProviderOption,
    kCacheOption,
    kPrecisionOption,
    kTimeLimitOption,
    kMemoryLimitOption,
};

constexpr Example kExamples[] = {
    {"ferry generate model.onnx --prompt 'Once upon a time'", "the likeliest text, as it comes"},
    {"ferry generate model.onnx --tokenizer tokenizer.json --prompt 'Dear' --temperature 0.8 --top-p 0.95 --seed 7",
     "another text for every seed"},
    {"ferry generate model.onnx --prompt 'Q: Why? A:' --stop 'Q:' --max-tokens 100 --json", "up to the next question"},
};

std::string PromptFrom(const Arguments& arguments) {
  if (arguments.Has("prompt") == arguments.Has("prompt-file"))
    throw UsageError{"give the text's beginning with --prompt TEXT or with --prompt-file FILE"};
  if (arguments.Has("prompt")) return arguments.Get("prompt");
  return std::string(MappedFile::Open(arguments.Get("prompt-file"))->text());
}

std::string TokenizerFrom(const Arguments& arguments) {
  if (arguments.Has("tokenizer")) return arguments.Get("tokenizer");
  const std::string& model = arguments.positions()[0];
  const size_t slash = model.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : model.substr(0, slash + 1);
  for (const std::string& path : {folder + "tokenizer.json", folder + "../tokenizer.json"})
    if (IsFile(path)) return path;
  throw UsageError{
      Cat("there is no tokenizer.json beside ", Printable(model), "; say where it is with --tokenizer FILE")};
}

LanguageModelNames NamesFrom(const Arguments& arguments) {
  LanguageModelNames names;
  for (const auto& [role, name] : arguments.Pairs("name")) names.roles[role] = name;
  names.caches = arguments.Pairs("past");
  return names;
}

// A terminal obeys control characters; nobody knows what a model says.
std::string WithoutControls(std::string_view text) {
  std::string out;
  for (char c : text) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    if (!is_control || c == '\n' || c == '\t')
      out += c;
    else
      out += "\uFFFD";
  }
  return out;
}

GenerateOptions OptionsFrom(const Arguments& arguments, const Tokenizer& tokenizer) {
  GenerateOptions options;
  options.max_tokens = arguments.Int("max-tokens", options.max_tokens, 0, INT64_MAX);
  options.context = arguments.Int("context", 0, 1, INT64_MAX);
  options.sampling.temperature = arguments.Number("temperature", 0);
  options.sampling.top_k = arguments.Int("top-k", 0, 0, INT64_MAX);
  options.sampling.top_p = arguments.Number("top-p", 1);
  options.sampling.min_p = arguments.Number("min-p", 0);
  options.sampling.repetition_penalty = arguments.Number("repetition-penalty", 1);
  options.sampling.seed = static_cast<uint64_t>(arguments.Int("seed", 0, 0, INT64_MAX));
  options.stop = arguments.All("stop");
  for (const std::string& token : arguments.All("stop-token")) {
    const TokenId id = tokenizer.Find(token);
    if (id == kNoToken) throw UsageError{Cat("the tokenizer has no token '", Printable(token), "'")};
    options.stop_tokens.push_back(id);
  }
  options.add_special = !arguments.Has("plain-prompt");
  return options;
}

double Rate(size_t tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

Json ToJson(const Generated& made) {
  const size_t after_first = made.ids.empty() ? 0 : made.ids.size() - 1;
  return Json()
      .Set("text", made.text)
      .Set("prompt_tokens", Json::List(made.prompt))
      .Set("tokens", Json::List(made.ids))
      .Set("stopped_by", ToText(made.reason))
      .Set("prompt_tokens_per_second", Rate(made.prompt.size(), made.prompt_seconds))
      .Set("tokens_per_second", Rate(after_first, made.seconds));
}

int Run(const Arguments& arguments) {
  const std::string prompt = PromptFrom(arguments);
  const std::shared_ptr<const Generator> generator = Generator::Open(
      arguments.positions()[0], TokenizerFrom(arguments), SessionOptionsFrom(arguments), NamesFrom(arguments));
  GenerateOptions options = OptionsFrom(arguments, generator->tokenizer());
  if (!arguments.json())
    options.on_text = [](std::string_view text) {
      Print(WithoutControls(text));
      return std::fflush(stdout) == 0;  // nobody reads any more
    };
  const Generated made = generator->Generate(prompt, options);
  if (arguments.json()) {
    PrintJson(ToJson(made));
    return kGood;
  }
  Print("\n");
  std::fflush(stdout);
  const size_t after_first = made.ids.empty() ? 0 : made.ids.size() - 1;
  const std::string speeds =
      Cat("prompt ", Plural(static_cast<int64_t>(made.prompt.size()), "token"), ", ",
          HumanNumber(Rate(made.prompt.size(), made.prompt_seconds)), " per second; generated ",
          Plural(static_cast<int64_t>(made.ids.size()), "token"), ", ", HumanNumber(Rate(after_first, made.seconds)),
          " per second; stopped by ", ToText(made.reason),
          made.reason == StopReason::kWindow ? ": the model's window has no room for more" : "", "\n");
  std::fwrite(speeds.data(), 1, speeds.size(), stderr);
  return kGood;
}

}  // namespace

extern const Command command_generate;
constinit const Command command_generate = {
    .name = "generate",
    .group = Group::kRun,
    .summary = "Let a language model go on with a text",
    .details =
        "Runs a decoder (.onnx, with its cache as inputs and outputs or without one) token by token and prints "
        "the text as it comes; how fast it came is said at the end, on standard error. Names of inputs and "
        "outputs are read from the graph as Optimum, Transformers and onnxruntime-genai write them.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
