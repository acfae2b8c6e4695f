// Things that are made once: who waits, for what, and what becomes of failures.
#include "base/single_flight.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/run_scope.h"
#include "tests/support/event.h"

namespace ferry {
namespace {

using testing::Event;

TEST(MakeOnce, IsTriedAgainAfterAFailure) {
  MakeOnce once;
  int calls = 0;
  EXPECT_THROW(once.Do([&] {
    ++calls;
    Fail(ErrorCode::kIo, "no");
  }),
               Error);
  EXPECT_FALSE(once.done());
  for (int i = 0; i < 3; ++i) once.Do([&] { ++calls; });
  EXPECT_TRUE(once.done());
  EXPECT_EQ(calls, 2);
}

TEST(MakeOnce, AWaitEndsWithTheRunOfWhoWaits) {
  MakeOnce once;
  Event begun, go_on;
  std::thread maker([&] {
    once.Do([&] {
      begun.Set();
      go_on.Wait();
    });
  });
  begun.Wait();
  std::atomic<bool> cancelled{true};
  {
    RunScope scope("the test", {}, &cancelled);
    EXPECT_THROW(once.Do([] {}), Error);
  }
  EXPECT_FALSE(once.done());
  go_on.Set();
  maker.join();
  EXPECT_TRUE(once.done());
}

// Whoever waits meets what the maker met, unless that concerns the maker's own run alone.
TEST(MakeOnce, WaitersShareWhatConcernsThem) {
  for (ErrorCode code : {ErrorCode::kInvalidModel, ErrorCode::kCancelled}) {
    MakeOnce once;
    Event begun, go_on;
    std::atomic<int> calls{0};
    auto make = [&] {
      if (++calls > 1 && code == ErrorCode::kCancelled) return;
      begun.Set();
      go_on.Wait();
      Fail(code, "it failed");
    };
    std::thread maker([&] { EXPECT_THROW(once.Do(make), Error); });
    begun.Wait();
    std::thread waiter([&] {
      if (code == ErrorCode::kCancelled)
        once.Do(make);
      else
        EXPECT_THROW(once.Do(make), Error);
    });
    go_on.Set();
    maker.join();
    waiter.join();
    EXPECT_EQ(once.done(), code == ErrorCode::kCancelled);
    EXPECT_LE(calls, 2);
  }
}

TEST(SingleFlight, OneMakerForEachKey) {
  SingleFlight<int> flights;
  Event begun, go_on;
  std::atomic<int> calls{0};
  auto slow = [&] {
    ++calls;
    begun.Set();
    go_on.Wait();
    return 7;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_EQ(flights.Do("slow", slow), 7); });
  begun.Wait();
  EXPECT_EQ(flights.Do("other", [] { return 8; }), 8) << "while the first one is still being made";
  go_on.Set();
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(calls, 1);
  EXPECT_EQ(flights.Do("slow", [] { return 9; }), 9) << "nothing is kept";
}

}  // namespace
}  // namespace ferry
