#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/api/outcome.h"

namespace {

const std::string kSimpleNet = std::string(FERRY_TEST_DATA) + "/torch-models/simple_net/torch.onnx";

class CSession : public ::testing::Test {
 protected:
  void SetUp() override { EXPECT_GOOD(ferry_session_open(kSimpleNet.c_str(), nullptr, &session)); }
  void TearDown() override { ferry_session_free(session); }

  ferry_value* MakeInput(int64_t batch, float fill) {
    std::vector<float> x(static_cast<size_t>(batch) * 10, fill);
    int64_t dims[] = {batch, 10};
    ferry_value* value = nullptr;
    EXPECT_GOOD(ferry_tensor_copy(FERRY_FLOAT, dims, 2, x.data(), x.size() * sizeof(float), &value));
    return value;
  }

  ferry_session* session = nullptr;
};

TEST(CApi, KnowsItsVersions) {
  EXPECT_EQ(ferry_abi_version(), static_cast<uint32_t>(FERRY_ABI_VERSION));
  EXPECT_NE(std::string(ferry_version()), "");
}

TEST(CApi, GoodIsNull) {
  EXPECT_EQ(ferry_status_code(nullptr), FERRY_OK);
  EXPECT_STREQ(ferry_status_message(nullptr), "");
  ferry_status_free(nullptr);
}

TEST(CApi, MissingFilesAreAStatus) {
  ferry_session* session = nullptr;
  Outcome outcome(ferry_session_open("/nowhere/at/all.onnx", nullptr, &session));
  EXPECT_EQ(outcome.code, FERRY_NOT_FOUND);
  EXPECT_NE(outcome.message.find("/nowhere/at/all.onnx"), std::string::npos);
  EXPECT_EQ(session, nullptr);
}

TEST(CApi, NullsAreRefusedNotFollowed) {
  ferry_session* session = nullptr;
  EXPECT_EQ(Outcome(ferry_session_open(nullptr, nullptr, &session)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(ferry_session_open("a", nullptr, nullptr)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(ferry_run(nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(ferry_input(nullptr, 0), nullptr);
  EXPECT_EQ(ferry_input_count(nullptr), 0u);
  EXPECT_EQ(ferry_value_kind(nullptr), FERRY_KIND_UNKNOWN);
  EXPECT_EQ(ferry_tensor_data(nullptr), nullptr);
  EXPECT_STREQ(ferry_info_name(nullptr), "");
  ferry_session_free(nullptr);
  ferry_value_free(nullptr);
  ferry_options_free(nullptr);
}

TEST(CApi, BytesMustFitTheShape) {
  float x[4] = {};
  int64_t dims[] = {2, 2};
  ferry_value* value = nullptr;
  EXPECT_EQ(Outcome(ferry_tensor_copy(FERRY_FLOAT, dims, 2, x, 12, &value)).code, FERRY_INVALID_ARGUMENT);
  int64_t negative[] = {-1};
  EXPECT_NE(Outcome(ferry_tensor_copy(FERRY_FLOAT, negative, 1, x, 4, &value)).code, FERRY_OK);
  int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_NE(Outcome(ferry_tensor_copy(FERRY_FLOAT, huge, 2, x, 4, &value)).code, FERRY_OK);
  EXPECT_NE(Outcome(ferry_tensor_copy(static_cast<ferry_dtype>(99), dims, 2, x, 16, &value)).code, FERRY_OK);
  EXPECT_EQ(value, nullptr);
  EXPECT_EQ(ferry_tensor_bytes_for(FERRY_INT4, dims, 2), 2);
  EXPECT_EQ(ferry_tensor_bytes_for(FERRY_FLOAT, huge, 2), -1);
}

TEST(CApi, BorrowedTensorsShareTheCallersMemory) {
  float x[6] = {1, 2, 3, 4, 5, 6};
  int64_t dims[] = {2, 3};
  ferry_value* value = nullptr;
  EXPECT_GOOD(ferry_tensor_borrow(FERRY_FLOAT, dims, 2, x, sizeof x, &value));
  EXPECT_EQ(ferry_tensor_data(value), x);
  EXPECT_EQ(ferry_tensor_rank(value), 2u);
  EXPECT_EQ(ferry_tensor_dims(value)[1], 3);
  ferry_value_free(value);
}

TEST(CApi, HoldsStringsAndSequences) {
  const char* texts[] = {"one", "two"};
  int64_t dims[] = {2};
  ferry_value* strings = nullptr;
  EXPECT_GOOD(ferry_tensor_of_strings(dims, 1, texts, nullptr, &strings));
  size_t length = 0;
  EXPECT_STREQ(ferry_tensor_string(strings, 1, &length), "two");
  EXPECT_EQ(length, 3u);
  EXPECT_EQ(ferry_tensor_string(strings, 2, nullptr), nullptr);
  ferry_value* sequence = nullptr;
  const ferry_value* elements[] = {strings, strings};
  EXPECT_GOOD(ferry_sequence_of(elements, 2, &sequence));
  ferry_value_free(strings);
  EXPECT_EQ(ferry_value_kind(sequence), FERRY_KIND_SEQUENCE);
  EXPECT_EQ(ferry_sequence_count(sequence), 2u);
  ferry_value* element = nullptr;
  EXPECT_GOOD(ferry_sequence_element(sequence, 1, &element));
  EXPECT_STREQ(ferry_tensor_string(element, 0, nullptr), "one");
  ferry_value* none = nullptr;
  EXPECT_EQ(Outcome(ferry_sequence_element(sequence, 2, &none)).code, FERRY_INVALID_ARGUMENT);
  ferry_value_free(element);
  ferry_value_free(sequence);
}

TEST_F(CSession, DescribesInputsAndOutputs) {
  ASSERT_EQ(ferry_input_count(session), 1u);
  ASSERT_EQ(ferry_output_count(session), 1u);
  const ferry_value_info* x = ferry_input(session, 0);
  EXPECT_STREQ(ferry_info_name(x), "x");
  EXPECT_STREQ(ferry_info_type(x), "float[batch, 10]");
  EXPECT_EQ(ferry_info_kind(x), FERRY_KIND_TENSOR);
  EXPECT_EQ(ferry_info_dtype(x), FERRY_FLOAT);
  EXPECT_EQ(ferry_info_rank(x), 2);
  EXPECT_EQ(ferry_info_dim(x, 0), -1);
  EXPECT_STREQ(ferry_info_dim_name(x, 0), "batch");
  EXPECT_EQ(ferry_info_dim(x, 1), 10);
  EXPECT_EQ(ferry_input(session, 1), nullptr);
}

TEST_F(CSession, RunsFromManyThreads) {
  const char* name = "x";
  ferry_value* input = MakeInput(2, 0.5f);
  std::vector<std::vector<float>> answers(4);
  std::vector<std::thread> threads;
  for (auto& answer : answers)
    threads.emplace_back([&, this] {
      for (int i = 0; i < 50; ++i) {
        ferry_value* output = nullptr;
        EXPECT_GOOD(ferry_run(session, &name, &input, 1, nullptr, 1, &output));
        auto* data = static_cast<const float*>(ferry_tensor_data(output));
        answer.assign(data, data + ferry_tensor_size(output));
        ferry_value_free(output);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers[0].size(), 6u);
  for (const auto& answer : answers) EXPECT_EQ(answer, answers[0]);
  ferry_value_free(input);
}

TEST_F(CSession, GivesValuesInsideTheModelByName) {
  const char* name = "x";
  const char* wanted[] = {"relu", "linear_1"};
  ferry_value* input = MakeInput(1, 1);
  ferry_value* outputs[2] = {};
  EXPECT_GOOD(ferry_run(session, &name, &input, 1, wanted, 2, outputs));
  EXPECT_EQ(ferry_tensor_size(outputs[0]), 16);
  EXPECT_EQ(ferry_tensor_size(outputs[1]), 3);
  for (ferry_value* value : {input, outputs[0], outputs[1]}) ferry_value_free(value);
}

TEST_F(CSession, RefusesWrongInputs) {
  const char* wrong = "y";
  ferry_value* input = MakeInput(1, 1);
  ferry_value* output = nullptr;
  Outcome outcome(ferry_run(session, &wrong, &input, 1, nullptr, 1, &output));
  EXPECT_EQ(outcome.code, FERRY_INVALID_ARGUMENT);
  EXPECT_NE(outcome.message.find("'x'"), std::string::npos) << outcome.message;
  EXPECT_EQ(output, nullptr);
  const char* name = "x";
  ferry_value* outputs[2] = {};
  EXPECT_EQ(Outcome(ferry_run(session, &name, &input, 1, nullptr, 2, outputs)).code, FERRY_INVALID_ARGUMENT);
  ferry_value_free(input);
}

TEST(CApi, OptionsAreChecked) {
  ferry_options* options = nullptr;
  EXPECT_GOOD(ferry_options_create(&options));
  EXPECT_GOOD(ferry_options_set_threads(options, 1));
  EXPECT_NE(Outcome(ferry_options_set_threads(options, -1)).code, FERRY_OK);
  EXPECT_NE(Outcome(ferry_options_set_dimension(options, "batch", -3)).code, FERRY_OK);
  EXPECT_GOOD(ferry_options_set_precision(options, "bf16"));
  EXPECT_NE(Outcome(ferry_options_set_precision(options, "fp8")).code, FERRY_OK);
  EXPECT_GOOD(ferry_options_set_provider(options, "abacus"));
  ferry_session* session = nullptr;
  EXPECT_NE(Outcome(ferry_session_open(kSimpleNet.c_str(), options, &session)).code, FERRY_OK);
  ferry_options_free(options);
}

}  // namespace
