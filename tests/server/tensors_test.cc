#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "server/compression.h"
#include "server/infer_codec.h"
#include "server/json_cursor.h"
#include "server/service.h"
#include "server/tensor_join.h"
#include "server/tensor_json.h"

namespace ferry::server {
namespace {

template <class T>
std::vector<T> Read(std::string_view text, Shape shape) {
  Tensor tensor(kDTypeOf<T>, std::move(shape));
  ReadTensorData(text, "x", tensor);
  return {tensor.Data<T>(), tensor.Data<T>() + tensor.size()};
}

TEST(TensorJson, ReadsNumbersNestedOrFlat) {
  EXPECT_EQ(Read<float>("[[1, -2.5],[3e2 ,4]]", {2, 2}), (std::vector<float>{1, -2.5, 300, 4}));
  EXPECT_EQ(Read<int8_t>("[-128,127]", {2}), (std::vector<int8_t>{-128, 127}));
  EXPECT_EQ(Read<uint64_t>("[18446744073709551615]", {1})[0], UINT64_MAX);
  EXPECT_EQ(Read<std::string>("[\"a\\u00fc\\ud83d\\ude00\\n\", \"\"]", {2})[0], "a\xc3\xbc\xf0\x9f\x98\x80\n");
  EXPECT_TRUE(std::isnan(Read<float>("[NaN]", {1})[0]));
  EXPECT_EQ(Read<float>("[-Infinity, 1e400]", {2})[1], INFINITY);
  EXPECT_TRUE(Read<float>("[]", {0}).empty());
}

TEST(TensorJson, RefusesWhatDoesNotFit) {
  for (const char* text :
       {"[1]", "[1,2,3]", "[1,]", "[1 2]", "1", "[1,\"2\"]", "[1,2", "[[1,2]", "[1,2]]", "[1,null]", "[+1,2]"})
    EXPECT_THROW(Read<float>(text, {2}), Refusal) << text;
  for (const char* text : {"[128]", "[1.5]", "[1e2]", "[true]", "[-129]"})
    EXPECT_THROW(Read<int8_t>(text, {1}), Refusal) << text;
  EXPECT_THROW(Read<float>(std::string(5000, '['), {2}), Refusal);
  EXPECT_THROW(Read<std::string>("[\"\\ud83d\"]", {1}), Refusal);
}

TEST(TensorJson, WritesWhatItReads) {
  const Tensor tensor = Tensor::FromVector<float>({0.1f, -3, 1e30f, 65504, std::nanf("")});
  std::string text;
  AppendTensorData(text, tensor);
  EXPECT_EQ(text, "[0.1,-3.0,1e+30,65504.0,NaN]");
  EXPECT_EQ(Read<float>(text, {5})[0], 0.1f);
  text.clear();
  AppendTensorData(text, Tensor::FromVector<std::string>({"a\"\x01", "\xff"}));
  EXPECT_EQ(text, "[\"a\\\"\\u0001\",\"\xef\xbf\xbd\"]");
}

TEST(TensorBytes, StringsAreCheckedBeforeTheyAreTaken) {
  const std::string good = std::string("\1\0\0\0a\0\0\0\0", 9);
  EXPECT_EQ(StringsFromBytes(good, {2}, "x", "m").Data<std::string>()[0], "a");
  EXPECT_THROW(StringsFromBytes(good, {3}, "x", "m"), Refusal);
  EXPECT_THROW(StringsFromBytes(good, {1}, "x", "m"), Refusal);
  EXPECT_THROW(StringsFromBytes(good.substr(0, 7), {2}, "x", "m"), Refusal);
  EXPECT_THROW(StringsFromBytes(std::string("\xff\xff\xff\xff", 4), {1}, "x", "m"), Refusal);
  EXPECT_THROW(StringsFromBytes("", {1'000'000'000'000}, "x", "m"), Refusal);
}

TEST(Classes, AreTheLargestElements) {
  const Tensor tensor = Tensor::FromVector<float>({1, 5, 10, 4, 0, 0, 0, 7}, {2, 4});
  const Tensor classes = Classify(tensor, 2, true, {"a", "b", "c"});
  EXPECT_EQ(classes.shape(), (Shape{2, 2}));
  EXPECT_EQ(classes.Data<std::string>()[0], "10.000000:2:c");
  EXPECT_EQ(classes.Data<std::string>()[2], "7.000000:3");
  EXPECT_EQ(Classify(tensor, 100, true, {}).dim(1), 4);
}

TEST(Compression, GoesBothWaysWithinItsLimit) {
  const std::string text(100'000, 'a');
  for (Coding coding : {Coding::kGzip, Coding::kDeflate}) {
    const std::string packed = Compress(text, coding);
    EXPECT_EQ(Decompress(packed, coding, text.size()), text);
    EXPECT_THROW(Decompress(packed, coding, text.size() - 1), Refusal);
    EXPECT_THROW(Decompress(packed.substr(0, packed.size() / 2), coding, text.size()), Refusal);
    EXPECT_THROW(Decompress("nonsense", coding, text.size()), Refusal);
  }
}

TEST(Base64, IsDecoded) {
  EXPECT_EQ(DecodeBase64("aGVsbG8="), "hello");
  EXPECT_EQ(DecodeBase64("aGVsbG8h"), "hello!");
  EXPECT_EQ(DecodeBase64(""), "");
  EXPECT_THROW(DecodeBase64("a$"), Refusal);
}

std::unique_ptr<Job> JobOf(std::vector<float> values, int64_t rows) {
  auto job = std::make_unique<Job>();
  const auto columns = static_cast<int64_t>(values.size()) / rows;
  job->request.inputs.emplace_back("x", Tensor::FromVector<float>(values, {rows, columns}));
  job->rows = rows;
  return job;
}

TEST(Joining, RowsGoInAndComeOut) {
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(JobOf({1, 2}, 1));
  jobs.push_back(JobOf({3, 4, 5, 6}, 2));
  EXPECT_TRUE(CanJoin(*jobs[0], *jobs[1]));
  EXPECT_FALSE(CanJoin(*jobs[0], *JobOf({1, 2, 3}, 1)));
  const std::vector<NamedValue> joined = JoinInputs(jobs);
  EXPECT_EQ(joined[0].second.tensor().shape(), (Shape{3, 2}));
  const std::vector<Value> outputs = {joined[0].second};
  EXPECT_TRUE(HaveRows(outputs, 3));
  EXPECT_FALSE(HaveRows(outputs, 2));
  EXPECT_EQ(RowsOf(outputs, 1, 2)[0].tensor().Data<float>()[0], 3);
  EXPECT_TRUE(AreClose(outputs, outputs));
  EXPECT_FALSE(AreClose(RowsOf(outputs, 0, 1), RowsOf(outputs, 1, 1)));
}

}  // namespace
}  // namespace ferry::server
