#include "torch/state_dict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/torch/script_archive.h"

namespace ferry::torch {
namespace {

using ::testing::HasSubstr;

StateDict Read(const std::string& contents) {
  auto kept = std::make_shared<std::string>(contents);
  return ReadStateDict(SharedBytes{{reinterpret_cast<const std::byte*>(kept->data()), kept->size()}, kept});
}

std::string ErrorOf(const std::string& contents) {
  try {
    Read(contents);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

std::string Safetensors(const std::string& table, const std::string& data = std::string(16, '\0')) {
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(table.size() >> (8 * i)));
  return out + table + data;
}

TEST(StateDict, ReadsSafetensors) {
  std::string data(16, '\0');
  float numbers[] = {1, 2, 3};
  std::copy_n(reinterpret_cast<const char*>(numbers), sizeof numbers, data.begin());
  data[12] = 7;
  StateDict found =
      Read(Safetensors("{\"__metadata__\":{\"format\":\"pt\"},"
                       "\"w\":{\"dtype\":\"F32\",\"shape\":[3,1],\"data_offsets\":[0,12]},"
                       "\"b\":{\"dtype\":\"BOOL\",\"shape\":[4],\"data_offsets\":[12,16]},"
                       "\"e\":{\"dtype\":\"F64\",\"shape\":[0,5],\"data_offsets\":[16,16]}}",
                       data));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].first, "w");
  EXPECT_EQ(found[0].second.shape(), Shape({3, 1}));
  EXPECT_EQ(found[0].second.Data<float>()[2], 3);
  EXPECT_TRUE(found[1].second.Data<bool>()[0]);
  EXPECT_EQ(found[2].second.size(), 0);
}

TEST(StateDict, RefusesSafetensorsThatLie) {
  auto entry = [](const std::string& fields) { return Safetensors("{\"w\":{" + fields + "}}"); };
  EXPECT_EQ(ErrorOf(entry("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]")), "");
  EXPECT_THAT(ErrorOf(entry("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]")), HasSubstr("bytes 0 to 8"));
  EXPECT_THAT(ErrorOf(entry("\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]")), HasSubstr("of 16"));
  EXPECT_THAT(ErrorOf(entry("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]")), HasSubstr("8 to 4"));
  EXPECT_NE(ErrorOf(entry("\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]")), "");
  EXPECT_NE(ErrorOf(entry("\"dtype\":\"F32\",\"shape\":[-1,-1],\"data_offsets\":[0,4]")), "");
  EXPECT_NE(ErrorOf(entry("\"dtype\":\"F32\",\"shape\":[4611686018427387904,8],\"data_offsets\":[0,0]")), "");
  EXPECT_NE(ErrorOf(entry("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18446744073709551615,3]")), "");
  EXPECT_THAT(ErrorOf(entry("\"dtype\":\"Q3\",\"shape\":[1],\"data_offsets\":[0,4]")), HasSubstr("Q3"));
  EXPECT_NE(ErrorOf(entry("\"shape\":[1]")), "");
  EXPECT_NE(ErrorOf(Safetensors("{" + std::string(100'000, '['))), "");
}

TEST(StateDict, RefusesCutFiles) {
  std::string whole = Safetensors("{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}");
  EXPECT_EQ(ErrorOf(whole), "");
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_NE(ErrorOf(whole.substr(0, length)), "") << length;
}

TEST(StateDict, ReadsModulesAndDictionaries) {
  std::string module = ScriptArchive{.code = "", .weights = {{"weight", {1, 2}}, {"bias", {3}}}}.Write("state_module");
  StateDict found = ReadStateDict(module);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].first, "weight");
  EXPECT_EQ(found[1].second.Data<float>()[0], 3);
  std::string dict = std::string("\x80\x02}X\x01\0\0\0a", 9) + "ctorch._utils\n_rebuild_tensor_v2\n((" +
                     std::string("X\x07\0\0\0storage", 12) + "ctorch\nFloatStorage\n" +
                     std::string(
                         "X\x01\0\0\0"
                         "0",
                         6) +
                     std::string("X\x03\0\0\0cpu", 8) + "K\x02tQ" + std::string("K\0K\x02\x85K\x01\x85\x89", 9) +
                     "ccollections\nOrderedDict\n)RtRs.";
  found = ReadStateDict(ScriptArchive{.code = "", .weights = {{"w", {5, 6}}}, .data = dict}.Write("state_dict"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].first, "a");
  EXPECT_EQ(found[0].second.Data<float>()[1], 6);
}

TEST(StateDict, RunsNothing) {
  std::string evil = std::string(
                         "\x80\x02"
                         "cos\nsystem\n") +
                     std::string("X\x04\0\0\0true\x85R.", 12);
  std::string path = ScriptArchive{.code = "", .data = evil}.Write("state_evil");
  EXPECT_THROW(ReadStateDict(path), Error);
  EXPECT_THAT(ErrorOf("\x80\x02 an old pickle"), HasSubstr("1.6"));
}

}  // namespace
}  // namespace ferry::torch
