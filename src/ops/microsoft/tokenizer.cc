// Texts to rows of tokens: characters, what lies between separators, or what an expression matches. Tokens of fewer
// characters than mincharnum are dropped; rows are filled up to one length, and may be marked at both ends.
#include "base/utf8.h"
#include "ops/operator.h"
#include "ops/support/regular_expression.h"

namespace ferry {
namespace {

using Tokens = std::vector<std::string_view>;

struct TokenizerRules {
  bool by_characters = false;
  int64_t least = 1;
  std::vector<std::unique_ptr<const RegularExpression>> separators;
  std::unique_ptr<const RegularExpression> token;

  explicit TokenizerRules(const Node& node) {
    least = node.Int("mincharnum", 0);
    Require(least > 0, "mincharnum must be positive, is ", least);
    std::vector<std::string> texts = node.Strings("separators");
    std::string expression = node.String("tokenexp", "");
    Require(!texts.empty() || !expression.empty(), "separators or tokenexp must be given");
    by_characters = texts.empty() ? expression == "." : texts.size() == 1 && texts[0].empty();
    Require(!by_characters || least < 2, "characters have no ", least, " characters (mincharnum)");
    if (by_characters) return;
    for (const std::string& text : texts) separators.push_back(CompileExpression(text));
    if (texts.empty()) token = CompileExpression(expression);
  }

  Tokens Cut(std::string_view text) const {
    if (by_characters) return Characters(text);
    return token ? Matches(text) : Separated(text);
  }

 private:
  static size_t After(std::string_view text, size_t place) {
    if (place >= text.size()) return place + 1;
    NextCodePoint(text, place);
    return place;
  }

  bool IsLong(std::string_view text) const {
    int64_t count = 0;
    for (size_t place = 0; place < text.size() && count < least; ++count) NextCodePoint(text, place);
    return count >= least;
  }

  static Tokens Characters(std::string_view text) {
    Tokens tokens;
    for (size_t place = 0; place < text.size();) {
      size_t end = After(text, place);
      tokens.push_back(text.substr(place, end - place));
      place = end;
    }
    return tokens;
  }

  Tokens Matches(std::string_view text) const {
    Tokens tokens;
    if (!IsLong(text)) return tokens;
    size_t begin = 0, length = 0;
    for (size_t from = 0; token->Find(text, from, begin, length);) {
      std::string_view part = text.substr(begin, length);
      bool taken = length > 0 && IsLong(part);
      if (taken) tokens.push_back(part);
      from = taken ? begin + length : After(text, begin);
    }
    return tokens;
  }

  // Each separator cuts what the ones before it left.
  Tokens Separated(std::string_view whole) const {
    Tokens parts{whole};
    for (const auto& separator : separators) {
      Tokens next;
      for (std::string_view text : parts) {
        size_t from = 0, begin = 0, length = 0;
        while (separator->Find(text, from, begin, length)) {
          if (IsLong(text.substr(from, begin - from))) next.push_back(text.substr(from, begin - from));
          from = length > 0 ? begin + length : After(text, begin);
        }
        if (from <= text.size() && IsLong(text.substr(from))) next.push_back(text.substr(from));
      }
      parts = std::move(next);
    }
    return parts;
  }
};

void ComputeTokenizer(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Node& node = context.node();
  Require(x.rank() == 1 || x.rank() == 2, "the input must have 1 or 2 axes, its shape is ", x.shape());
  auto rules = context.Prepared<std::shared_ptr<const TokenizerRules>>(
      [&] { return std::make_shared<const TokenizerRules>(node); });
  bool marks = node.Int("mark", 0) != 0;
  std::vector<Tokens> rows;
  size_t most = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    const std::string& text = x.Data<std::string>()[i];
    Require(IsValidUtf8(text), "text ", i, " is not UTF-8");
    rows.push_back((*rules)->Cut(text));
    most = std::max(most, rows.back().size());
  }
  Shape shape = x.shape();
  if (x.size() == 0) {
    shape.back() = 0;  // as ONNX Runtime has it: no further axis
    context.Output(0, DType::kString, shape);
    return;
  }
  if (most > 0 && marks) most += 2;
  shape.push_back(static_cast<int64_t>(most));
  std::string* out = context.Output(0, DType::kString, shape).MutableData<std::string>();
  if (most == 0) return;
  std::string pad = node.String("pad_value", "");
  for (const Tokens& row : rows) {
    std::string* end = out + most;
    if (marks) *out++ = "\x02";
    for (std::string_view token : row) *out++ = std::string(token);
    if (marks) *out++ = "\x03";
    while (out != end) *out++ = pad;
  }
}

void InferTokenizer(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x || x->empty()) return context.SetOutput(0, DType::kString);
  Dim count = CountElements(*x);
  if (!count.known()) return context.SetOutput(0, DType::kString);
  SymbolicShape shape = *x;
  if (*count.value == 0)
    shape.back() = Dim(0);
  else
    shape.emplace_back();
  context.SetOutput(0, DType::kString, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, Tokenizer, {.compute = ComputeTokenizer, .infer = InferTokenizer});

}  // namespace ferry
