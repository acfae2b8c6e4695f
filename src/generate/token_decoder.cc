#include "generate/token_decoder.h"

#include "base/utf8.h"
#include "generate/byte_letters.h"
#include "generate/component.h"
#include "generate/unicode.h"

namespace ferry {

using namespace unicode;

namespace {

using Tokens = std::vector<std::string>;

std::string Joined(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

bool BeginsWith(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

class ByteLevelDecoder : public TokenDecoder {
 public:
  Tokens Apply(Tokens tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens)
      if (!AppendFromByteLetters(token, bytes)) bytes += token;
    return {WithoutInvalidBytes(bytes)};
  }
};

// "do n't ." back to what people write.
std::string CleanedUp(std::string text) {
  static constexpr const char* kPairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                              {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                              {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& pair : kPairs) text = Pattern::Literal(pair[0]).ReplaceAll(text, pair[1]);
  return text;
}

class WordPieceDecoder : public TokenDecoder {
 public:
  explicit WordPieceDecoder(const Json& json)
      : prefix_(TextOr(json, "prefix", "##")), cleanup_(BoolOr(json, "cleanup", true)) {}
  Tokens Apply(Tokens tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) tokens[i] = BeginsWith(tokens[i], prefix_) ? tokens[i].substr(prefix_.size()) : " " + tokens[i];
      if (cleanup_) tokens[i] = CleanedUp(std::move(tokens[i]));
    }
    return tokens;
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class MetaspaceDecoder : public TokenDecoder {
 public:
  explicit MetaspaceDecoder(const Json& json)
      : mark_(Pattern::Literal(TextOr(json, "replacement", "▁"))),
        prepends_(TextOr(json, "prepend_scheme", BoolOr(json, "add_prefix_space", true) ? "always" : "never") !=
                  "never") {}
  Tokens Apply(Tokens tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = mark_.ReplaceAll(tokens[i], i == 0 && prepends_ ? "" : " ");
    return tokens;
  }

 private:
  Pattern mark_;
  bool prepends_;
};

class ByteFallbackDecoder : public TokenDecoder {
 public:
  Tokens Apply(Tokens tokens) const override {
    Tokens made;
    std::string bytes;
    auto flush = [&] {
      if (bytes.empty()) return;
      if (IsValidUtf8(bytes)) {
        made.push_back(bytes);
      } else {
        for (size_t i = 0; i < bytes.size(); ++i) made.push_back("\uFFFD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      const int byte = ByteOfToken(token);
      if (byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      made.push_back(std::move(token));
    }
    flush();
    return made;
  }
};

class FuseDecoder : public TokenDecoder {
 public:
  Tokens Apply(Tokens tokens) const override { return {Joined(tokens)}; }
};

class ReplaceDecoder : public TokenDecoder {
 public:
  explicit ReplaceDecoder(const Json& json)
      : pattern_(PatternFrom(json.At("pattern"))), content_(json.At("content").AsString()) {}
  Tokens Apply(Tokens tokens) const override {
    for (std::string& token : tokens) token = pattern_.ReplaceAll(token, content_);
    return tokens;
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class StripDecoder : public TokenDecoder {
 public:
  explicit StripDecoder(const Json& json)
      : content_(json.At("content").AsString()), start_(IntOr(json, "start", 0)), stop_(IntOr(json, "stop", 0)) {
    if (content_.empty()) Fail(ErrorCode::kInvalidModel, "a Strip decoder has nothing to strip");
  }
  Tokens Apply(Tokens tokens) const override {
    for (std::string& token : tokens) {
      std::string_view text = token;
      for (int64_t i = 0; i < start_ && BeginsWith(text, content_); ++i) text.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && EndsWith(text); ++i) text.remove_suffix(content_.size());
      token = std::string(text);
    }
    return tokens;
  }

 private:
  bool EndsWith(std::string_view text) const {
    return text.size() >= content_.size() && text.substr(text.size() - content_.size()) == content_;
  }
  std::string content_;
  int64_t start_, stop_;
};

class BpeDecoder : public TokenDecoder {
 public:
  explicit BpeDecoder(const Json& json) : suffix_(Pattern::Literal(TextOr(json, "suffix", "</w>"))) {}
  Tokens Apply(Tokens tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = suffix_.ReplaceAll(tokens[i], i + 1 == tokens.size() ? "" : " ");
    return tokens;
  }

 private:
  Pattern suffix_;
};

// Speech: repeated tokens are one, padding is none.
class CtcDecoder : public TokenDecoder {
 public:
  explicit CtcDecoder(const Json& json)
      : pad_(TextOr(json, "pad_token", "<pad>")),
        delimiter_(Pattern::Literal(TextOr(json, "word_delimiter_token", "|"))),
        cleanup_(BoolOr(json, "cleanup", true)) {}
  Tokens Apply(Tokens tokens) const override {
    Tokens made;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i] == tokens[i - 1]) continue;
      std::string text = Pattern::Literal(pad_).ReplaceAll(tokens[i], "");
      if (cleanup_) text = delimiter_.ReplaceAll(CleanedUp(std::move(text)), " ");
      if (!text.empty()) made.push_back(std::move(text));
    }
    return made;
  }

 private:
  std::string pad_;
  Pattern delimiter_;
  bool cleanup_;
};

class DecoderSequence : public TokenDecoder {
 public:
  DecoderSequence(const Json& json, int depth) {
    for (const Json& part : json.At("decoders").AsArray()) parts_.push_back(MakeTokenDecoder(part, depth + 1));
  }
  Tokens Apply(Tokens tokens) const override {
    for (const auto& part : parts_)
      if (part) tokens = part->Apply(std::move(tokens));
    return tokens;
  }

 private:
  std::vector<std::unique_ptr<const TokenDecoder>> parts_;
};

}  // namespace

std::unique_ptr<const TokenDecoder> MakeTokenDecoder(const Json& json, int depth) {
  if (json.is_null()) return nullptr;
  const std::string type = TypeOfComponent(json, "decoder", depth);
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "WordPiece") return std::make_unique<WordPieceDecoder>(json);
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(json);
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(json);
  if (type == "Strip") return std::make_unique<StripDecoder>(json);
  if (type == "BPEDecoder") return std::make_unique<BpeDecoder>(json);
  if (type == "CTC") return std::make_unique<CtcDecoder>(json);
  if (type == "Sequence") return std::make_unique<DecoderSequence>(json, depth);
  RefuseComponent("decoder", type);
}

}  // namespace ferry
