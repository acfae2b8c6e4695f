// Tensors on a GPU through the C interface; where there is none, that this is said.
#include <cstring>
#include <vector>

#include "ferry/ferry.h"
#include "gmock/gmock.h"
#include "tests/api/outcome.h"

namespace {

void ExpectBad(ferry_status* status, ferry_code code, const char* part) {
  const Outcome outcome(status);
  EXPECT_EQ(outcome.code, code) << outcome.message;
  EXPECT_THAT(outcome.message, ::testing::HasSubstr(part));
}

const std::string kSimpleNet = std::string(FERRY_TEST_DATA) + "/torch-models/simple_net/torch.onnx";

class CDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const int64_t dims[] = {2, 10};
    EXPECT_GOOD(ferry_tensor_create(FERRY_FLOAT, dims, 2, &input_));
    auto* x = static_cast<float*>(ferry_tensor_mutable_data(input_));
    for (int i = 0; i < 20; ++i) x[i] = static_cast<float>(i) / 10;
  }
  void TearDown() override { ferry_value_free(input_); }

  static bool HasGpu() {
    ferry_value *one = nullptr, *there = nullptr;
    EXPECT_GOOD(ferry_tensor_create(FERRY_FLOAT, nullptr, 0, &one));
    ferry_status* status = ferry_tensor_to(one, "cuda", &there);
    const bool has = status == nullptr;
    ferry_status_free(status);
    ferry_value_free(one);
    ferry_value_free(there);
    return has;
  }

  std::vector<float> Answer(const char* provider, const ferry_value* input, bool stays) {
    ferry_options* options = nullptr;
    ferry_run_options* run = nullptr;
    ferry_session* session = nullptr;
    ferry_value *output = nullptr, *back = nullptr;
    EXPECT_GOOD(ferry_options_create(&options));
    EXPECT_GOOD(ferry_options_set_provider(options, provider));
    EXPECT_GOOD(ferry_options_set_device_memory(options, size_t{1} << 30));
    EXPECT_GOOD(ferry_run_options_create(&run));
    if (stays) EXPECT_GOOD(ferry_run_options_set_device(run, "cuda:0"));
    EXPECT_GOOD(ferry_session_open(kSimpleNet.c_str(), options, &session));
    const char* name = "x";
    EXPECT_GOOD(ferry_run_with(session, run, &name, &input, 1, nullptr, 1, &output));
    EXPECT_STREQ(ferry_tensor_device(output), stays ? "cuda:0" : "cpu");
    EXPECT_EQ(ferry_tensor_data(output) == nullptr, stays);
    EXPECT_GOOD(ferry_tensor_to(output, "cpu", &back));
    std::vector<float> answer(static_cast<size_t>(ferry_tensor_size(back)));
    std::memcpy(answer.data(), ferry_tensor_data(back), ferry_tensor_bytes(back));
    for (ferry_value* value : {output, back}) ferry_value_free(value);
    ferry_session_free(session);
    ferry_run_options_free(run);
    ferry_options_free(options);
    return answer;
  }

  ferry_value* input_ = nullptr;
};

TEST_F(CDevice, HostTensorsAreOnTheHost) {
  EXPECT_STREQ(ferry_tensor_device(input_), "cpu");
  EXPECT_EQ(ferry_tensor_device_data(input_), ferry_tensor_data(input_));
  EXPECT_STREQ(ferry_tensor_device(nullptr), "");
  ferry_value *same = nullptr, *over = nullptr;
  EXPECT_GOOD(ferry_tensor_to(input_, "cpu", &same));
  EXPECT_EQ(ferry_tensor_data(same), ferry_tensor_data(input_));
  const int64_t dims[] = {4};
  float four[] = {1, 2, 3, 4};
  EXPECT_GOOD(ferry_tensor_borrow_on("cpu", FERRY_FLOAT, dims, 1, four, sizeof four, &over));
  EXPECT_EQ(ferry_tensor_data(over), four);
  ferry_value_free(same);
  ferry_value_free(over);
}

TEST_F(CDevice, WhatCannotBeHadIsSaid) {
  ferry_value* out = nullptr;
  const int64_t dims[] = {4};
  float four[4] = {};
  ExpectBad(ferry_tensor_to(input_, "abacus", &out), FERRY_INVALID_ARGUMENT, "there is no provider 'abacus'");
  ExpectBad(ferry_tensor_borrow_on("cpu", FERRY_FLOAT, dims, 1, four, 12, &out), FERRY_INVALID_ARGUMENT,
            "12 bytes are given");
  ExpectBad(ferry_tensor_borrow_on("cpu", FERRY_STRING, dims, 1, four, 16, &out), FERRY_INVALID_ARGUMENT,
            "no tensor of type");
  ExpectBad(ferry_tensor_to(input_, "cpu:7", &out), FERRY_INVALID_ARGUMENT, "there is no device 'cpu:7'");
  if (!HasGpu())
    ExpectBad(ferry_tensor_to(input_, "cuda", &out), FERRY_UNSUPPORTED, "provider cuda cannot be used here");
}

TEST_F(CDevice, InputsAndOutputsStayThere) {
  if (!HasGpu()) GTEST_SKIP() << "there is no NVIDIA GPU";
  const std::vector<float> expected = Answer("cpu", input_, false);
  ferry_value *there = nullptr, *over = nullptr;
  EXPECT_GOOD(ferry_tensor_to(input_, "cuda", &there));
  EXPECT_STREQ(ferry_tensor_device(there), "cuda:0");
  EXPECT_EQ(ferry_tensor_data(there), nullptr);
  const int64_t dims[] = {2, 10};
  EXPECT_GOOD(ferry_tensor_borrow_on("cuda", FERRY_FLOAT, dims, 2, ferry_tensor_device_data(there), 80, &over));
  for (const ferry_value* input : {static_cast<const ferry_value*>(input_), static_cast<const ferry_value*>(there),
                                   static_cast<const ferry_value*>(over)})
    for (bool stays : {false, true}) {
      const std::vector<float> answer = Answer("cuda,cpu", input, stays);
      ASSERT_EQ(answer.size(), expected.size());
      for (size_t i = 0; i < answer.size(); ++i) EXPECT_NEAR(answer[i], expected[i], 1e-5);
    }
  ferry_value_free(over);
  ferry_value_free(there);
}

}  // namespace
