// Tokenizers against recordings of Hugging Face's own library (record_tokenizers.mjs), and hostile files.
#include "generate/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/utf8.h"

namespace ferry {
namespace {

using Ids = std::vector<TokenId>;

const char kData[] = "tests/data/generate/";

Json ReadJson(const std::string& name) { return Json::Parse(MappedFile::Open(kData + name)->text()); }

Ids IdsOf(const Json& json) {
  Ids ids;
  for (const Json& id : json.AsArray()) ids.push_back(static_cast<TokenId>(id.AsInt()));
  return ids;
}

TEST(TokenizerTest, AgreesWithTheRecordings) {
  const Json recorded = ReadJson("tokenizers.json");
  size_t cases = 0;
  for (const Json& each : recorded.AsArray()) {
    const auto tokenizer = Tokenizer::Parse(each.At("tokenizer").Dump(-1));
    for (const Json& one : each.At("cases").AsArray()) {
      SCOPED_TRACE(each.At("name").AsString() + ": " + one.At("text").AsString());
      const Ids ids = IdsOf(one.At("ids"));
      EXPECT_EQ(tokenizer->Encode(one.At("text").AsString()), ids);
      EXPECT_EQ(tokenizer->Encode(one.At("text").AsString(), false), IdsOf(one.At("plain")));
      EXPECT_EQ(tokenizer->Decode(ids), one.At("decoded").AsString());
      EXPECT_EQ(tokenizer->Decode(ids, false), one.At("with_special").AsString());
      ++cases;
    }
  }
  EXPECT_GT(cases, 500u);
}

TEST(TokenizerTest, StreamsWholeCharacters) {
  const Json recorded = ReadJson("tokenizers.json");
  for (const Json& each : recorded.AsArray()) {
    const auto tokenizer = Tokenizer::Parse(each.At("tokenizer").Dump(-1));
    const std::string& name = each.At("name").AsString();
    const bool looks_ahead = name == "clip" || name == "merged_next" || name == "bert";  // what follows changes a token
    for (const Json& one : each.At("cases").AsArray()) {
      SCOPED_TRACE(name + ": " + one.At("text").AsString());
      TextStream stream(tokenizer);
      std::string text;
      for (TokenId id : IdsOf(one.At("ids"))) {
        const std::string part = stream.Add(id);
        EXPECT_TRUE(IsValidUtf8(part));
        text += part;
      }
      text += stream.Finish();
      if (!looks_ahead) EXPECT_EQ(text, one.At("decoded").AsString());
    }
  }
}

TEST(TokenizerTest, HoldsHalfACharacterBack) {
  const auto tokenizer = Tokenizer::Open(std::string(kData) + "tokenizer.json");
  TextStream stream(tokenizer);
  std::vector<std::string> parts;
  for (TokenId id : tokenizer->Encode("a👍b")) parts.push_back(stream.Add(id));
  ASSERT_EQ(parts.size(), 6u);
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "", "", "", "👍", "b"}));
  EXPECT_EQ(stream.Finish(), "");

  const Ids half = tokenizer->Encode("👍");
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(stream.Add(half[i]), "");
  EXPECT_EQ(stream.Finish(), "\uFFFD");
  // Bytes that never become a character are not held for ever.
  std::string broken;
  for (int i = 0; i < 1000; ++i) broken += stream.Add(half[1]);
  EXPECT_GT(broken.size(), 900u);
}

TEST(TokenizerTest, BytesThatAreNoTextAreReplaced) {
  const auto tokenizer = Tokenizer::Open(std::string(kData) + "tokenizer.json");
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("a\xff\xe2\x96z")), "a\uFFFD\uFFFDz");
}

std::string MessageOf(const std::string& json) {
  try {
    Tokenizer::Parse(json);
  } catch (const Error& error) {
    return error.message();
  }
  return "taken";
}

std::string With(const std::string& parts) {
  return R"({"model":{"type":"WordLevel","vocab":{"[UNK]":0},"unk_token":"[UNK]"},)" + parts + "}";
}

TEST(TokenizerTest, RefusesByName) {
  using testing::HasSubstr;
  EXPECT_THAT(MessageOf(With(R"("pre_tokenizer":{"type":"UnicodeScripts"})")), HasSubstr("'UnicodeScripts'"));
  EXPECT_THAT(MessageOf(With(R"("normalizer":{"type":"Spellcheck"})")), HasSubstr("normalizer 'Spellcheck'"));
  EXPECT_THAT(MessageOf(With(R"("decoder":{"type":"Magic"})")), HasSubstr("decoder 'Magic'"));
  EXPECT_THAT(MessageOf(With(R"("post_processor":{"type":"Wrap"})")), HasSubstr("post-processor 'Wrap'"));
  EXPECT_THAT(MessageOf(R"({"model":{"type":"Neural"}})"), HasSubstr("model 'Neural'"));
  EXPECT_THAT(MessageOf(R"({"model":{"type":"BPE","vocab":{},"merges":[],"dropout":0.1}})"), HasSubstr("dropout 0.1"));
  EXPECT_THAT(MessageOf(With(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a)\\1"},"behavior":"Isolated"})")),
              HasSubstr("'\\1'"));
}

TEST(TokenizerTest, PiecesOfOneLengthAndLettersOfBytes) {
  auto ids = [](const std::string& text, const std::string& parts) {
    return Tokenizer::Parse(
               R"({"model":{"type":"WordLevel","vocab":{"[UNK]":0,"abc":1,"dé":2,"Ġa":3},"unk_token":"[UNK]"},)" +
               parts + "}")
        ->Encode(text);
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(ids("abcabcdé", R"("pre_tokenizer":{"type":"FixedLength","length":3})"), (Ids{1, 1, 2}));
  EXPECT_EQ(ids(" a", R"("normalizer":{"type":"ByteLevel"})"), (Ids{3}));
  EXPECT_THAT(MessageOf(With(R"("pre_tokenizer":{"type":"FixedLength","length":0})")),
              testing::HasSubstr("length of 0"));
}

TEST(TokenizerTest, BrokenFilesAreErrors) {
  using testing::HasSubstr;
  EXPECT_THAT(MessageOf("{"), HasSubstr("line"));
  EXPECT_THAT(MessageOf("[]"), HasSubstr("not a tokenizer.json"));
  EXPECT_THAT(MessageOf(R"({"model":{"type":"WordLevel","vocab":{"a":99999999999}}})"), HasSubstr("99999999999"));
  EXPECT_THAT(MessageOf(R"({"model":{"type":"WordLevel","vocab":{"a":-1}}})"), HasSubstr("-1"));
  EXPECT_THAT(MessageOf(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}})"), HasSubstr("'b'"));
  EXPECT_THAT(MessageOf(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["ab"]}})"), HasSubstr("not two tokens"));
  EXPECT_THAT(MessageOf(R"({"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":5}})"), HasSubstr("unk_id is 5"));
  EXPECT_THAT(MessageOf(With(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="})")),
              HasSubstr("trie"));
  for (const char* regex :
       {"(a", "[a", "a{9999}", "a{3,2}", "(?:a*)*", "*", "\\\\", "\\\\p{Klingon}", "[z-a]", "(?<n>a)"})
    EXPECT_NE(MessageOf(With(std::string(R"("normalizer":{"type":"Replace","content":"","pattern":{"Regex":")") +
                             regex + "\"}}")),
              "taken")
        << regex;
  std::string deep = R"({"type":"Lowercase"})";
  for (int i = 0; i < 40; ++i) deep = R"({"type":"Sequence","normalizers":[)" + deep + "]}";
  EXPECT_THAT(MessageOf(With("\"normalizer\":" + deep)), HasSubstr("nested too deeply"));
}

// With the square of its length, a text of 100,000 characters would take minutes.
TEST(TokenizerTest, LongTextsTakeTimeInProportion) {
  const Json recorded = ReadJson("tokenizers.json");
  const size_t size = 100'000;
  for (const Json& each : recorded.AsArray()) {
    const auto tokenizer = Tokenizer::Parse(each.At("tokenizer").Dump(-1));
    for (char letter : {'a', ' ', '1'})
      EXPECT_LE(tokenizer->Encode(std::string(size, letter)).size(), 2 * size + 2) << each.At("name").AsString();
  }
}

TEST(TokenizerTest, SlowPatternsAndManyMarksAreLimits) {
  const auto slow = Tokenizer::Parse(
      With(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?:a+)+b"},"behavior":"Isolated"})"));
  EXPECT_THROW(slow->Encode(std::string(100, 'a')), Error);
  const auto marks = Tokenizer::Parse(With(R"("normalizer":{"type":"NFD"})"));
  std::string text = "a";
  for (int i = 0; i < 5000; ++i) text += i % 2 ? "\u0301" : "\u0327";
  EXPECT_THROW(marks->Encode(text), Error);
}

}  // namespace
}  // namespace ferry
