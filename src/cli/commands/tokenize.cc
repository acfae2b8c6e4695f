#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "generate/tokenizer.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {
    {.name = "TOKENIZER", .help = "Hugging Face's tokenizer.json"},
    {.name = "TEXT",
     .help = "what to tokenize; with --decode: numbers of tokens",
     .completes = Completes::kNothing,
     .repeated = true},
};

constexpr Option kOptions[] = {
    {.name = "decode", .help = "the way back: numbers to text"},
    {.name = "plain", .help = "without the tokens that the tokenizer puts around a text"},
};

constexpr Example kExamples[] = {
    {"ferry tokenize tokenizer.json 'Hello, world'", "every token with its number"},
    {"ferry tokenize tokenizer.json --decode 15496 11 995", "the text of these tokens"},
};

std::vector<TokenId> IdsFrom(std::span<const std::string> words) {
  std::vector<TokenId> ids;
  for (const std::string& word : words) {
    int64_t id = word.empty() ? -1 : 0;
    for (char c : word) id = c < '0' || c > '9' || id < 0 || id >= kMostTokens ? -1 : id * 10 + (c - '0');
    if (id < 0 || id >= kMostTokens) throw UsageError{Cat("'", Printable(word), "' is not the number of a token")};
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

int Run(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.positions();
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Open(words[0]);
  const std::span<const std::string> rest = std::span(words).subspan(1);
  if (arguments.Has("decode")) {
    const std::string text = tokenizer->Decode(IdsFrom(rest), false);
    if (arguments.json())
      PrintJson(Json().Set("text", text));
    else
      Print(text + "\n");
    return kGood;
  }
  const std::vector<TokenId> ids = tokenizer->Encode(Join(rest, " "), !arguments.Has("plain"));
  Json tokens = Json::Array{};
  Columns columns({true});
  for (TokenId id : ids) {
    const std::string* token = tokenizer->TextOf(id);
    tokens.Add(token ? *token : std::string());
    columns.Add({Cat(id), token ? Printable(*token) : ""});
  }
  if (arguments.json())
    PrintJson(Json().Set("ids", Json::List(ids)).Set("tokens", std::move(tokens)));
  else
    Print(columns.Text());
  return kGood;
}

}  // namespace

extern const Command command_tokenize;
constinit const Command command_tokenize = {
    .name = "tokenize",
    .group = Group::kUnderstand,
    .summary = "Show the tokens that a text becomes",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
