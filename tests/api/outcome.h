#pragma once

#include <gtest/gtest.h>

#include <string>

#include "ferry/ferry.h"

// Takes a status over, so that a failed expectation shows its message.
struct Outcome {
  explicit Outcome(ferry_status* status) : code(ferry_status_code(status)), message(ferry_status_message(status)) {
    ferry_status_free(status);
  }
  ferry_code code;
  std::string message;
};

#define EXPECT_GOOD(call)                                 \
  do {                                                    \
    Outcome outcome(call);                                \
    EXPECT_EQ(outcome.code, FERRY_OK) << outcome.message; \
  } while (false)
