#include "generate/pre_tokenizer.h"

#include <algorithm>

#include "base/utf8.h"
#include "generate/byte_letters.h"
#include "generate/component.h"
#include "generate/unicode.h"

namespace ferry {

using namespace unicode;

namespace {

using Piece = Pattern::Match;

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior BehaviorFrom(const std::string& name) {
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  Fail(ErrorCode::kUnsupported, "the tokenizer splits by a behavior '", Printable(name),
       "'; Ferry knows Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous");
}

// A delimiter joins its neighbour on one side, unless that is a delimiter itself.
std::vector<Piece> Merged(std::vector<Piece> pieces, bool with_next) {
  if (with_next) std::reverse(pieces.begin(), pieces.end());
  std::vector<Piece> merged;
  bool was_match = false;
  for (const Piece& piece : pieces) {
    if (piece.is_match && !was_match && !merged.empty())
      (with_next ? merged.back().begin : merged.back().end) = with_next ? piece.begin : piece.end;
    else
      merged.push_back(piece);
    was_match = piece.is_match;
  }
  if (with_next) std::reverse(merged.begin(), merged.end());
  return merged;
}

std::vector<Piece> Behave(std::vector<Piece> pieces, Behavior behavior) {
  switch (behavior) {
    case Behavior::kIsolated: return pieces;
    case Behavior::kRemoved:
      pieces.erase(std::remove_if(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.is_match; }),
                   pieces.end());
      return pieces;
    case Behavior::kContiguous: {
      std::vector<Piece> joined;
      for (const Piece& piece : pieces)
        if (!joined.empty() && joined.back().is_match == piece.is_match)
          joined.back().end = piece.end;
        else
          joined.push_back(piece);
      return joined;
    }
    case Behavior::kMergedWithPrevious: return Merged(std::move(pieces), false);
    case Behavior::kMergedWithNext: return Merged(std::move(pieces), true);
  }
  return pieces;
}

void AddWords(const Word& whole, const std::vector<Piece>& pieces, std::vector<Word>& words) {
  for (const Piece& piece : pieces)
    if (piece.end > piece.begin)
      words.push_back({whole.text.substr(piece.begin, piece.end - piece.begin), whole.begins_text && piece.begin == 0});
}

// Every character that `is` holds for is a match of its own.
template <class Is>
std::vector<Piece> CharacterPieces(std::string_view text, const Is& is) {
  std::vector<Piece> pieces;
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    const bool match = is(NextCodePoint(text, position));
    if (!match && !pieces.empty() && !pieces.back().is_match)
      pieces.back().end = position;
    else
      pieces.push_back({begin, position, match});
  }
  return pieces;
}

template <class Is>
class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(Is is, Behavior behavior) : is_(is), behavior_(behavior) {}
  void Split(const Word& piece, std::vector<Word>& words) const override {
    AddWords(piece, Behave(CharacterPieces(piece.text, is_), behavior_), words);
  }

 private:
  Is is_;
  Behavior behavior_;
};

template <class Is>
std::unique_ptr<const PreTokenizer> MakeCharacterSplit(Is is, Behavior behavior) {
  return std::make_unique<CharacterSplit<Is>>(is, behavior);
}

class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(Pattern pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void Split(const Word& piece, std::vector<Word>& words) const override {
    std::vector<Piece> pieces = pattern_.Pieces(piece.text);
    if (invert_)
      for (Piece& each : pieces) each.is_match = !each.is_match;
    AddWords(piece, Behave(std::move(pieces), behavior_), words);
  }

 private:
  Pattern pattern_;
  Behavior behavior_;
  bool invert_;
};

class ByteLevel : public PreTokenizer {
 public:
  explicit ByteLevel(const Json& json)
      : add_prefix_space_(BoolOr(json, "add_prefix_space", true)),
        use_regex_(BoolOr(json, "use_regex", true)),
        pattern_(Pattern::Regex(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)")) {}

  void Split(const Word& given, std::vector<Word>& words) const override {
    Word piece = given;
    if (add_prefix_space_ && (piece.text.empty() || piece.text[0] != ' ')) piece.text.insert(0, 1, ' ');
    const size_t before = words.size();
    if (use_regex_)
      AddWords(piece, pattern_.Pieces(piece.text), words);
    else
      words.push_back(std::move(piece));
    for (size_t i = before; i < words.size(); ++i) words[i].text = ToByteLetters(words[i].text);
  }

 private:
  bool add_prefix_space_, use_regex_;
  Pattern pattern_;
};

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const Json& json)
      : mark_(TextOr(json, "replacement", "▁")),
        scheme_(TextOr(json, "prepend_scheme", BoolOr(json, "add_prefix_space", true) ? "always" : "never")),
        split_(BoolOr(json, "split", true)),
        pattern_(Pattern::Literal(mark_)) {
    if (scheme_ != "always" && scheme_ != "never" && scheme_ != "first")
      Fail(ErrorCode::kUnsupported, "Metaspace has a prepend_scheme '", Printable(scheme_), "'");
    if (mark_.empty()) Fail(ErrorCode::kInvalidModel, "Metaspace has an empty replacement");
  }

  void Split(const Word& given, std::vector<Word>& words) const override {
    Word piece{Pattern::Literal(" ").ReplaceAll(given.text, mark_), given.begins_text};
    const bool may_prepend = scheme_ == "always" || (scheme_ == "first" && piece.begins_text);
    if (may_prepend && piece.text.compare(0, mark_.size(), mark_) != 0) piece.text.insert(0, mark_);
    if (split_)
      AddWords(piece, Behave(pattern_.Pieces(piece.text), Behavior::kMergedWithNext), words);
    else
      words.push_back(std::move(piece));
  }

 private:
  std::string mark_, scheme_;
  bool split_;
  Pattern pattern_;
};

// Pieces of so many characters; the last one may be shorter.
class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(const Json& json) : length_(IntOr(json, "length", 5)) {
    if (length_ < 1) Fail(ErrorCode::kInvalidModel, "FixedLength has a length of ", length_);
  }
  void Split(const Word& given, std::vector<Word>& words) const override {
    std::vector<Piece> pieces;
    int64_t characters = 0;
    for (size_t position = 0; position < given.text.size(); ++characters) {
      if (characters % length_ == 0) pieces.push_back({position, position, false});
      NextCodePoint(given.text, position);
      pieces.back().end = position;
    }
    AddWords(given, pieces, words);
  }

 private:
  int64_t length_;
};

class PreTokenizerSequence : public PreTokenizer {
 public:
  void Add(std::unique_ptr<const PreTokenizer> part) {
    if (part) parts_.push_back(std::move(part));
  }
  void Split(const Word& piece, std::vector<Word>& words) const override {
    std::vector<Word> now = {piece};
    for (const auto& part : parts_) {
      std::vector<Word> next;
      for (const Word& word : now) part->Split(word, next);
      now = std::move(next);
    }
    for (Word& word : now) words.push_back(std::move(word));
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

std::unique_ptr<const PreTokenizer> MakeSequence(const Json& json, int depth) {
  auto made = std::make_unique<PreTokenizerSequence>();
  for (const Json& part : json.At("pretokenizers").AsArray()) made->Add(MakePreTokenizer(part, depth + 1));
  return made;
}

std::unique_ptr<const PreTokenizer> MakeBert() {
  auto made = std::make_unique<PreTokenizerSequence>();
  made->Add(MakeCharacterSplit(IsWhitespace, Behavior::kRemoved));
  made->Add(MakeCharacterSplit(IsPunctuation, Behavior::kIsolated));
  return made;
}

uint32_t OnlyCharacter(const std::string& text) {
  size_t position = 0;
  const uint32_t code_point = text.empty() ? kInvalidCodePoint : NextCodePoint(text, position);
  if (position != text.size() || code_point == kInvalidCodePoint)
    Fail(ErrorCode::kInvalidModel, "a delimiter must be one character, is '", Printable(text), "'");
  return code_point;
}

}  // namespace

std::unique_ptr<const PreTokenizer> MakePreTokenizer(const Json& json, int depth) {
  if (json.is_null()) return nullptr;
  const std::string type = TypeOfComponent(json, "pre-tokenizer", depth);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(json);
  if (type == "Metaspace") return std::make_unique<Metaspace>(json);
  if (type == "Split")
    return std::make_unique<PatternSplit>(PatternFrom(json.At("pattern")), BehaviorFrom(json.At("behavior").AsString()),
                                          BoolOr(json, "invert", false));
  if (type == "Whitespace")
    return std::make_unique<PatternSplit>(Pattern::Regex(R"(\w+|[^\w\s]+)"), Behavior::kRemoved, true);
  if (type == "WhitespaceSplit") return MakeCharacterSplit(IsWhitespace, Behavior::kRemoved);
  if (type == "BertPreTokenizer") return MakeBert();
  if (type == "Digits")
    return MakeCharacterSplit(IsNumber,
                              BoolOr(json, "individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous);
  if (type == "Punctuation")
    return MakeCharacterSplit(IsPunctuation, BehaviorFrom(TextOr(json, "behavior", "Isolated")));
  if (type == "CharDelimiterSplit") {
    const uint32_t delimiter = OnlyCharacter(json.At("delimiter").AsString());
    return MakeCharacterSplit([delimiter](uint32_t c) { return c == delimiter; }, Behavior::kRemoved);
  }
  if (type == "FixedLength") return std::make_unique<FixedLength>(json);
  if (type == "Sequence") return MakeSequence(json, depth);
  RefuseComponent("pre-tokenizer", type);
}

}  // namespace ferry
