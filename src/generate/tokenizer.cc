#include "generate/tokenizer.h"

#include <algorithm>

#include "base/mapped_file.h"
#include "generate/component.h"
#include "generate/unicode.h"

namespace ferry {

using namespace unicode;

namespace {

const Json& Member(const Json& json, std::string_view key) {
  static const Json null;
  const Json* found = json.Find(key);
  return found ? *found : null;
}

TokenId IdFrom(const Json& json) {
  const int64_t id = json.AsInt();
  if (id < 0 || id >= kMostTokens) Fail(ErrorCode::kInvalidModel, "the post-processor has a token number ", id);
  return static_cast<TokenId>(id);
}

// What TemplateProcessing puts before and after the one sequence.
void ReadTemplate(const Json& json, std::vector<TokenId>& before, std::vector<TokenId>& after) {
  bool is_before = true;
  const Json& special = Member(json, "special_tokens");
  for (const Json& part : json.At("single").AsArray()) {
    if (part.Find("Sequence")) {
      if (!is_before) Fail(ErrorCode::kUnsupported, "TemplateProcessing repeats the text");
      is_before = false;
      continue;
    }
    const std::string& name = part.At("SpecialToken").At("id").AsString();
    for (const Json& id : special.At(name).At("ids").AsArray()) (is_before ? before : after).push_back(IdFrom(id));
  }
  if (is_before) Fail(ErrorCode::kUnsupported, "TemplateProcessing leaves the text out");
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::Open(const std::string& path) {
  const std::shared_ptr<MappedFile> file = MappedFile::Open(path);
  try {
    return Parse({reinterpret_cast<const char*>(file->data()), file->size()});
  } catch (Error& error) {
    throw error.At(path);
  }
}

std::shared_ptr<const Tokenizer> Tokenizer::Parse(std::string_view text) {
  const Json json = Json::Parse(text, {.depth = 100, .bytes = size_t{256} << 20, .values = size_t{16} << 20});
  if (!json.is_object() || !json.Find("model"))
    Fail(ErrorCode::kInvalidModel, "this is not a tokenizer.json: it has no \"model\"");
  std::shared_ptr<Tokenizer> made(new Tokenizer);
  made->normalizer_ = MakeNormalizer(Member(json, "normalizer"));
  made->pre_tokenizer_ = MakePreTokenizer(Member(json, "pre_tokenizer"));
  made->model_ = MakeTokenModel(json.At("model"));
  made->decoder_ = MakeTokenDecoder(Member(json, "decoder"));
  if (IsGiven(json, "added_tokens")) made->added_ = AddedTokens(json.At("added_tokens"), made->normalizer_.get());
  made->ReadPostProcessor(Member(json, "post_processor"), 0);
  return made;
}

void Tokenizer::ReadPostProcessor(const Json& json, int depth) {
  if (json.is_null()) return;
  const std::string type = TypeOfComponent(json, "post-processor", depth);
  std::vector<TokenId> before, after;
  if (type == "Sequence") {
    for (const Json& part : json.At("processors").AsArray()) ReadPostProcessor(part, depth + 1);
  } else if (type == "TemplateProcessing") {
    ReadTemplate(json, before, after);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    const Json::Array &cls = json.At("cls").AsArray(), &sep = json.At("sep").AsArray();
    if (cls.size() != 2 || sep.size() != 2)
      Fail(ErrorCode::kInvalidModel, type, " needs a token and its number for cls and sep");
    before = {IdFrom(cls[1])};
    after = {IdFrom(sep[1])};
  } else if (type != "ByteLevel") {  // which changes offsets only
    RefuseComponent("post-processor", type);
  }
  before_.insert(before_.begin(), before.begin(), before.end());
  after_.insert(after_.end(), after.begin(), after.end());
}

void Tokenizer::EncodePiece(const Word& piece, std::vector<TokenId>& ids) const {
  std::vector<Word> words;
  if (pre_tokenizer_)
    pre_tokenizer_->Split(piece, words);
  else
    words.push_back(piece);
  for (const Word& word : words)
    if (!word.text.empty()) model_->Encode(word.text, ids);
}

std::vector<TokenId> Tokenizer::Encode(std::string_view given, bool add_special) const {
  if (given.size() > kMostText)
    Fail(ErrorCode::kLimit, "a text of ", given.size(), " bytes is too long for a tokenizer; it takes ", kMostText);
  const std::string text = WithoutInvalidBytes(given);
  std::vector<TokenId> ids;
  if (add_special) ids = before_;
  for (const AddedTokens::Piece& piece : added_.Split(text, false)) {
    if (piece.id != kNoToken) {
      ids.push_back(piece.id);
      continue;
    }
    std::string part = text.substr(piece.begin, piece.end - piece.begin);
    if (normalizer_) part = normalizer_->Apply(part);
    for (const AddedTokens::Piece& inner : added_.Split(part, true))
      if (inner.id != kNoToken)
        ids.push_back(inner.id);
      else
        EncodePiece({part.substr(inner.begin, inner.end - inner.begin), piece.begin == 0 && inner.begin == 0}, ids);
  }
  if (add_special) ids.insert(ids.end(), after_.begin(), after_.end());
  return ids;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  for (TokenId id : ids) {
    if (skip_special && added_.IsSpecial(id)) continue;
    const std::string* token = TextOf(id);
    Require(token, "the tokenizer has no token ", id, "; its tokens are 0 to ", static_cast<int64_t>(size()) - 1);
    tokens.push_back(*token);
  }
  std::string text;
  if (!decoder_) {
    text = Join(tokens, " ");
  } else {
    for (const std::string& part : decoder_->Apply(std::move(tokens))) text += part;
  }
  return WithoutInvalidBytes(text);
}

TokenId Tokenizer::Find(const std::string& token) const {
  const TokenId added = added_.Find(token);
  return added != kNoToken ? added : model_->vocabulary().Find(token);
}

const std::string* Tokenizer::TextOf(TokenId id) const {
  const std::string* added = added_.TextOf(id);
  return added ? added : model_->vocabulary().TextOf(id);
}

size_t Tokenizer::size() const { return std::max(model_->vocabulary().room(), added_.room()); }

namespace {

constexpr std::string_view kBroken = "\uFFFD";
// No character has more bytes: what is still broken after so many tokens stays so.
constexpr size_t kMostHeldBack = 8;

bool EndsBroken(std::string_view text) {
  return text.size() >= kBroken.size() && text.substr(text.size() - kBroken.size()) == kBroken;
}

}  // namespace

std::string TextStream::Add(TokenId id) {
  if (skip_special_ && tokenizer_->IsSpecial(id)) return {};  // it has no text and changes none
  ids_.push_back(id);
  std::string text = tokenizer_->Decode(ids_, skip_special_);
  if (text.size() < shown_.size() || (EndsBroken(text) && ids_.size() - shown_ids_ < kMostHeldBack)) return {};
  std::string fresh = text.substr(shown_.size());
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(shown_ids_));
  shown_ids_ = ids_.size();
  shown_ = tokenizer_->Decode(ids_, skip_special_);
  return fresh;
}

std::string TextStream::Finish() {
  const std::string text = tokenizer_->Decode(ids_, skip_special_);
  std::string fresh = text.size() > shown_.size() ? text.substr(shown_.size()) : std::string();
  ids_.clear();
  shown_ids_ = 0;
  shown_.clear();
  return fresh;
}

}  // namespace ferry
