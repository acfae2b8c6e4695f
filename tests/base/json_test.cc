#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace ferry {
namespace {

std::string ErrorOf(std::string_view text, const JsonLimits& limits = {}) {
  try {
    Json::Parse(text, limits);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Json, KeepsKindsAndOrder) {
  Json json = Json::Parse(R"({"b": [1, -2, 18446744073709551615, 1.5, true, null], "a": "x", "a": "y"})");
  const Json::Array& list = json.At("b").AsArray();
  EXPECT_EQ(list[0].AsInt(), 1);
  EXPECT_EQ(list[1].AsInt(), -2);
  EXPECT_EQ(list[2].AsUnsigned(), UINT64_MAX);
  EXPECT_THROW(list[2].AsInt(), Error);
  EXPECT_EQ(list[3].AsDouble(), 1.5);
  EXPECT_TRUE(list[4].AsBool());
  EXPECT_TRUE(list[5].is_null());
  EXPECT_EQ(json.AsObject()[0].first, "b");
  EXPECT_EQ(json.At("a").AsString(), "y");
  EXPECT_EQ(json.Find("c"), nullptr);
}

TEST(Json, ReadsTheExtremesOfIntegers) {
  EXPECT_EQ(Json::Parse("-9223372036854775808").AsInt(), INT64_MIN);
  EXPECT_EQ(Json::Parse("9223372036854775807").AsInt(), INT64_MAX);
  EXPECT_FALSE(Json::Parse("-9223372036854775809").is_integer());
  EXPECT_EQ(Json::Parse("1e400").AsDouble(), INFINITY);
}

TEST(Json, ReadsWhatPythonWrites) {
  Json json = Json::Parse("[NaN, Infinity, -Infinity, \"-Infinity\"]");
  EXPECT_TRUE(std::isnan(json.AsArray()[0].AsDouble()));
  EXPECT_EQ(json.AsArray()[1].AsDouble(), INFINITY);
  EXPECT_EQ(json.AsArray()[2].AsDouble(), -INFINITY);
  EXPECT_EQ(json.AsArray()[3].AsDouble(), -INFINITY);
}

TEST(Json, DecodesEscapes) {
  EXPECT_EQ(Json::Parse(R"("\u00e9\ud83d\ude00\n\/")").AsString(), "\xC3\xA9\xF0\x9F\x98\x80\n/");
  for (std::string_view bad : {R"("\ud83d")", R"("\ude00")", R"("\x41")", R"("\u00g0")", "\"\xff\"", "\"a\nb\""})
    EXPECT_NE(ErrorOf(bad), "") << bad;
}

TEST(Json, RefusesWhatIsNotJson) {
  for (std::string_view bad : {"", " ", "{", "[1,]", "{\"a\" 1}", "{a: 1}", "01", "1.", "-", "1e", "tru", "1 2", "[1}",
                               "'a'", "{\"a\":1,}", "nan", "+1", ".5", "\"abc"})
    EXPECT_NE(ErrorOf(bad), "") << bad;
}

TEST(Json, SaysWhereItIsWrong) { EXPECT_THAT(ErrorOf("{\n\"a\": ?}"), testing::HasSubstr("line 2, byte 7")); }

TEST(Json, KeepsToItsLimits) {
  EXPECT_THAT(ErrorOf(std::string(1'000'000, '[')), testing::HasSubstr("nested deeper"));
  EXPECT_EQ(ErrorOf(std::string(200, '[') + std::string(200, ']')), "");
  EXPECT_THAT(ErrorOf("[1,2,3]", {.values = 3}), testing::HasSubstr("more than 3 values"));
  EXPECT_THAT(ErrorOf("[1,2,3]", {.bytes = 3}), testing::HasSubstr("larger than the limit"));
}

TEST(Json, AnyCutTextIsRefused) {
  std::string text = R"({"name": "a\u00e9\ud83d\ude00", "dims": [1, -2.5e3, {"x": null}], "ok": true})";
  ASSERT_EQ(ErrorOf(text), "");
  for (size_t length = 0; length < text.size(); ++length) EXPECT_NE(ErrorOf(text.substr(0, length)), "") << length;
}

TEST(Json, WritesWhatItReads) {
  Json json;
  json.Set("text", "quote\" back\\ line\n tab\t bell\x07 \xC3\xA9");
  json.Set("numbers", Json::List(std::vector<double>{0.1, 1, -1e300, 1.0 / 3}));
  json.Set("big", UINT64_MAX).Set("none", nullptr).Set("yes", true).Set("nested", Json().Add(Json().Set("k", 1)));
  for (int indent : {-1, 2}) {
    Json back = Json::Parse(json.Dump(indent));
    EXPECT_EQ(back.Dump(), json.Dump());
    EXPECT_EQ(back.At("text").AsString(), json.At("text").AsString());
    EXPECT_EQ(back.At("numbers").AsArray()[3].AsDouble(), 1.0 / 3);
    EXPECT_FALSE(back.At("numbers").AsArray()[1].is_integer());
  }
}

TEST(Json, WritesNumbersJsonLacksAsText) {
  EXPECT_EQ(Json(std::nan("")).Dump(), "\"NaN\"");
  EXPECT_EQ(Json(-INFINITY).Dump(), "\"-Infinity\"");
  EXPECT_EQ(Json("\xff").Dump(), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(Json::Parse("{\"shape\": [1, 2], \"empty\": []}").Dump(), "{\n  \"shape\": [1, 2],\n  \"empty\": []\n}");
}

TEST(Json, ReportsTheWrongKind) {
  try {
    Json::Parse("[1]").AsArray()[0].AsString();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::HasSubstr("expected a string in JSON, found an integer"));
  }
}

}  // namespace
}  // namespace ferry
