#include "generate/normalizer.h"

#include <vector>

#include "base/utf8.h"
#include "generate/byte_letters.h"
#include "generate/component.h"
#include "generate/unicode.h"

namespace ferry {

using namespace unicode;

namespace {

// The text without what `change` drops: it appends what a character becomes.
template <class Change>
std::string EachCharacter(std::string_view text, const Change& change) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) change(NextCodePoint(text, position), out);
  return out;
}

class FormNormalizer : public Normalizer {
 public:
  explicit FormNormalizer(NormalForm form) : form_(form) {}
  std::string Apply(const std::string& text) const override { return Normalized(text, form_); }

 private:
  NormalForm form_;
};

class Lowercase : public Normalizer {
 public:
  std::string Apply(const std::string& text) const override { return LowerCase(text); }
};

class StripAccents : public Normalizer {
 public:
  std::string Apply(const std::string& text) const override {
    return EachCharacter(text, [](uint32_t c, std::string& out) {
      if (!IsMark(c)) AppendCodePoint(out, c);
    });
  }
};

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const Json& json)
      : clean_(BoolOr(json, "clean_text", true)),
        chinese_(BoolOr(json, "handle_chinese_chars", true)),
        lower_(BoolOr(json, "lowercase", true)),
        accents_(BoolOr(json, "strip_accents", lower_)) {}

  std::string Apply(const std::string& given) const override {
    std::string text = given;
    if (clean_) text = EachCharacter(text, Clean);
    if (chinese_)
      text = EachCharacter(text, [](uint32_t c, std::string& out) {
        const bool apart = IsChinese(c);
        if (apart) out += ' ';
        AppendCodePoint(out, c);
        if (apart) out += ' ';
      });
    if (accents_)
      text = EachCharacter(Normalized(text, NormalForm::kNfd), [](uint32_t c, std::string& out) {
        if (!IsNonspacingMark(c)) AppendCodePoint(out, c);
      });
    return lower_ ? LowerCase(text) : text;
  }

 private:
  static void Clean(uint32_t c, std::string& out) {
    const bool is_line_blank = c == '\t' || c == '\n' || c == '\r';
    if (c == 0 || c == 0xFFFD || (IsOther(c) && !is_line_blank)) return;
    AppendCodePoint(out, is_line_blank || IsWhitespace(c) ? ' ' : c);
  }

  bool clean_, chinese_, lower_, accents_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  std::string Apply(const std::string& text) const override { return ToByteLetters(text); }
};

class ReplaceNormalizer : public Normalizer {
 public:
  explicit ReplaceNormalizer(const Json& json)
      : pattern_(PatternFrom(json.At("pattern"))), content_(json.At("content").AsString()) {}
  std::string Apply(const std::string& text) const override { return pattern_.ReplaceAll(text, content_); }

 private:
  Pattern pattern_;
  std::string content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(const Json& json) : what_(json.At("prepend").AsString()) {}
  std::string Apply(const std::string& text) const override { return text.empty() ? text : what_ + text; }

 private:
  std::string what_;
};

class Strip : public Normalizer {
 public:
  explicit Strip(const Json& json)
      : left_(BoolOr(json, "strip_left", true)), right_(BoolOr(json, "strip_right", true)) {}

  std::string Apply(const std::string& text) const override {
    size_t begin = text.size(), end = 0;
    for (size_t position = 0; position < text.size();) {
      const size_t at = position;
      if (IsWhitespace(NextCodePoint(text, position))) continue;
      begin = std::min(begin, at);
      end = position;
    }
    if (!left_) begin = 0;
    if (!right_) end = text.size();
    return begin < end ? text.substr(begin, end - begin) : std::string();
  }

 private:
  bool left_, right_;
};

// The blanks and control characters of machine translation's texts.
class Nmt : public Normalizer {
 public:
  std::string Apply(const std::string& text) const override {
    return EachCharacter(text, [](uint32_t c, std::string& out) {
      const bool is_control =
          (c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
      const bool is_blank = c == 9 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                            (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                            c == 0xFFFD;
      if (!is_control) AppendCodePoint(out, is_blank ? ' ' : c);
    });
  }
};

class NormalizerSequence : public Normalizer {
 public:
  NormalizerSequence(const Json& json, int depth) {
    for (const Json& part : json.At("normalizers").AsArray()) parts_.push_back(MakeNormalizer(part, depth + 1));
  }
  std::string Apply(const std::string& given) const override {
    std::string text = given;
    for (const auto& part : parts_)
      if (part) text = part->Apply(text);
    if (text.size() > kMostText) Fail(ErrorCode::kLimit, "normalising makes more than ", kMostText, " bytes of text");
    return text;
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

}  // namespace

std::unique_ptr<const Normalizer> MakeNormalizer(const Json& json, int depth) {
  if (json.is_null()) return nullptr;
  const std::string type = TypeOfComponent(json, "normalizer", depth);
  if (type == "NFC") return std::make_unique<FormNormalizer>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<FormNormalizer>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<FormNormalizer>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<FormNormalizer>(NormalForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "BertNormalizer") return std::make_unique<BertNormalizer>(json);
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "Replace") return std::make_unique<ReplaceNormalizer>(json);
  if (type == "Prepend") return std::make_unique<Prepend>(json);
  if (type == "Strip") return std::make_unique<Strip>(json);
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "Precompiled") return MakePrecompiledNormalizer(TextOr(json, "precompiled_charsmap", ""));
  if (type == "Sequence") return std::make_unique<NormalizerSequence>(json, depth);
  RefuseComponent("normalizer", type);
}

}  // namespace ferry
