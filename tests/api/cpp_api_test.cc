#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "ferry/ferry.hpp"
#include "tests/support/temporary_folder.h"

namespace {

const std::string kSimpleNet = std::string(FERRY_TEST_DATA) + "/torch-models/simple_net/torch.onnx";

TEST(CppApi, RunsAModel) {
  ferry::Session session(kSimpleNet, {.threads = 1});
  ASSERT_EQ(session.inputs().size(), 1u);
  EXPECT_EQ(session.inputs()[0].name, "x");
  EXPECT_EQ(session.inputs()[0].shape, (std::vector<int64_t>{-1, 10}));
  EXPECT_EQ(session.inputs()[0].dim_names[0], "batch");
  std::vector<float> x(30, 0.25f);
  auto outputs = session.Run("x", ferry::Value::Of<float>({3, 10}, x));
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].shape()[0], 3);
  auto y = outputs[0].Data<float>();
  ASSERT_EQ(y.size(), 9u);
  for (size_t i = 3; i < 9; ++i) EXPECT_EQ(y[i], y[i - 3]);
  EXPECT_THROW(outputs[0].Data<double>(), ferry::Error);
}

TEST(CppApi, OpensModelsInMemory) {
  std::ifstream file(kSimpleNet, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<float> x(10, 1.0f);
  ferry::Session from_memory(std::as_bytes(std::span(bytes)));
  ferry::Session from_file(kSimpleNet);
  bytes.assign(bytes.size(), 'x');
  auto a = from_memory.Run("x", ferry::Value::Of<float>({1, 10}, x));
  auto b = from_file.Run("x", ferry::Value::Of<float>({1, 10}, x));
  EXPECT_TRUE(std::equal(a[0].bytes().begin(), a[0].bytes().end(), b[0].bytes().begin(), b[0].bytes().end()));
}

TEST(CppApi, ThrowsWithACode) {
  try {
    ferry::Session session("/nowhere/at/all.onnx");
    FAIL() << "opened a file that is not there";
  } catch (const ferry::Error& error) {
    EXPECT_EQ(error.code(), ferry::Code::kNotFound);
  }
  ferry::Session session(kSimpleNet);
  std::vector<double> x(10);
  EXPECT_THROW(session.Run("x", ferry::Value::Of<double>({1, 10}, x)), ferry::Error);
}

TEST(CppApi, AWrongInputNameIsNamedWithTheRightOne) {
  ferry::Session session(kSimpleNet);
  std::vector<float> x(10);
  try {
    session.Run("inptu", ferry::Value::Of<float>({1, 10}, x));
    FAIL();
  } catch (const ferry::Error& error) {
    EXPECT_NE(std::string(error.what()).find("no input 'inptu'; did you mean 'x'?"), std::string::npos) << error.what();
  }
}

TEST(CppApi, FixedDimensionsAreHeld) {
  ferry::Session session(kSimpleNet, {.dimensions = {{"batch", 2}}});
  std::vector<float> x(10);
  EXPECT_THROW(session.Run("x", ferry::Value::Of<float>({1, 10}, x)), ferry::Error);
}

TEST(CppApi, HoldsStringsSequencesAndOptionals) {
  std::vector<std::string> words{"a", std::string("b\0c", 3)};
  int64_t shape[] = {2};
  ferry::Value strings = ferry::Value::OfStrings(shape, words);
  EXPECT_EQ(strings.String(1), words[1]);
  EXPECT_THROW(strings.String(2), ferry::Error);
  std::vector<ferry::Value> parts;
  parts.push_back(std::move(strings));
  ferry::Value sequence = ferry::Value::Sequence(parts);
  EXPECT_EQ(sequence.element_count(), 1u);
  EXPECT_EQ(sequence.Element(0).String(0), "a");
  EXPECT_EQ(ferry::Value::EmptyOptional().kind(), FERRY_KIND_OPTIONAL);
  EXPECT_THROW(sequence.Keys(), ferry::Error);
}

TEST(CppApi, ChecksModels) {
  EXPECT_TRUE(ferry::Check(kSimpleNet).valid);
  std::ifstream file(kSimpleNet, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  bytes.replace(bytes.find("Relu"), 4, "Rolu");
  std::string path = ferry::testing::TemporaryPath("check.onnx");
  std::ofstream(path, std::ios::binary) << bytes;
  ferry::Report report = ferry::Check(path);
  EXPECT_FALSE(report.valid);
  ASSERT_FALSE(report.problems.empty());
  EXPECT_NE(report.problems[0].find("Rolu"), std::string::npos) << report.problems[0];
  EXPECT_THROW(ferry::Check("/nowhere/at/all.onnx"), ferry::Error);
}

}  // namespace
