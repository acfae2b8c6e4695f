#include <string>

#include "outcome.h"
#include "tests/support/temporary_folder.h"

namespace {

ferry_value* Floats(std::initializer_list<float> values) {
  int64_t count = static_cast<int64_t>(values.size());
  ferry_value* made = nullptr;
  EXPECT_GOOD(ferry_tensor_copy(FERRY_FLOAT, &count, 1, values.begin(), values.size() * sizeof(float), &made));
  return made;
}

TEST(CTape, RunsRecordsAndWrites) {
  ferry_call* call = nullptr;
  ASSERT_EQ(ferry_call_create(nullptr, "LeakyRelu", nullptr, &call), nullptr);
  EXPECT_GOOD(ferry_call_set_float(call, "alpha", 0.5f));
  ferry_value* x = Floats({-2, 3});
  ferry_value* y = nullptr;
  EXPECT_GOOD(ferry_call_run(call, &x, 1, 1, &y));
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(static_cast<const float*>(ferry_tensor_data(y))[0], -1);

  ferry_tape* tape = nullptr;
  ASSERT_EQ(ferry_tape_create(&tape), nullptr);
  int64_t in = 0, out = 0;
  EXPECT_GOOD(ferry_tape_input(tape, "x", x, &in));
  EXPECT_GOOD(ferry_tape_record(tape, call, &in, 1, &y, 1, &out));
  EXPECT_GOOD(ferry_tape_output(tape, "y", out));
  EXPECT_GOOD(ferry_tape_dynamic(tape, "x", 0, "n"));
  EXPECT_GOOD(ferry_tape_compare(tape, tape));
  std::string path = ferry::testing::TemporaryPath("tape.onnx");
  EXPECT_GOOD(ferry_tape_write(tape, path.c_str(), 13, 1));
  EXPECT_EQ(ferry_tape_warning_count(tape), 0u);
  EXPECT_EQ(ferry_tape_warning(tape, 0), nullptr);
  ferry_session* session = nullptr;
  EXPECT_GOOD(ferry_session_open(path.c_str(), nullptr, &session));
  EXPECT_STREQ(ferry_info_type(ferry_output(session, 0)), "float[n]");
  ferry_session_free(session);
  ferry_tape_free(tape);
  ferry_value_free(x);
  ferry_value_free(y);
  ferry_call_free(call);
}

TEST(CTape, RefusesMisuse) {
  ferry_call* call = nullptr;
  EXPECT_EQ(Outcome(ferry_call_create("", nullptr, "", &call)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(ferry_call_create("", "Relu", "", nullptr)).code, FERRY_INVALID_ARGUMENT);
  ASSERT_EQ(ferry_call_create("", "Relu", "", &call), nullptr);
  EXPECT_EQ(Outcome(ferry_call_set_int(nullptr, "a", 1)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(ferry_call_set_ints(call, "a", nullptr, 3)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(ferry_call_set_string(call, "a", nullptr)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(ferry_call_set_tensor(call, "a", nullptr)).code, FERRY_INVALID_ARGUMENT);
  ferry_value* x = Floats({1});
  ferry_value* y = x;
  EXPECT_EQ(Outcome(ferry_call_run(call, nullptr, 1, 1, &y)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(y, nullptr);
  EXPECT_EQ(Outcome(ferry_call_run(call, &x, 1, 0, &y)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(ferry_call_run(nullptr, &x, 1, 1, &y)).code, FERRY_INVALID_ARGUMENT);

  ferry_tape* tape = nullptr;
  ASSERT_EQ(ferry_tape_create(&tape), nullptr);
  int64_t id = 0;
  for (int64_t wrong : {int64_t{0}, int64_t{-2}, INT64_MAX, INT64_MIN})
    EXPECT_EQ(Outcome(ferry_tape_record(tape, call, &wrong, 1, &x, 1, &id)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(ferry_tape_output(tape, "y", 5)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(ferry_tape_dynamic(tape, "x", 0, "n")).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(ferry_tape_write(tape, "unwritten.onnx", 13, 1)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(ferry_tape_input(tape, "x", nullptr, &id)).code, FERRY_INVALID_ARGUMENT);
  ferry_value* list = nullptr;
  EXPECT_GOOD(ferry_sequence_of(&x, 1, &list));
  EXPECT_EQ(Outcome(ferry_tape_input(tape, "x", list, &id)).code, FERRY_INVALID_ARGUMENT);
  EXPECT_GOOD(ferry_tape_parameter(tape, "w", x, &id));
  EXPECT_EQ(Outcome(ferry_tape_parameter(tape, "w", x, &id)).code, FERRY_INVALID_ARGUMENT);
  ferry_value_free(list);
  ferry_value_free(x);
  ferry_tape_free(tape);
  ferry_call_free(call);
  ferry_tape_free(nullptr);
  ferry_call_free(nullptr);
  ferry_weights_free(nullptr);
  EXPECT_EQ(ferry_weights_count(nullptr), 0u);
  EXPECT_EQ(ferry_weights_name(nullptr, 0), nullptr);
}

}  // namespace
