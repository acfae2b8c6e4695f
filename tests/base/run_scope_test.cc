#include "base/run_scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/memory_account.h"
#include "base/thread_pool.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

template <class Call>
Error Thrown(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "no error"};
}

Limits BytesOf(size_t bytes) {
  Limits limits;
  limits.bytes = bytes;
  return limits;
}

TEST(MemoryAccount, CountsAgainstItsLimitAndTheOneAround) {
  auto outer = std::make_shared<MemoryAccount>(100);
  MemoryAccount inner(80, outer);
  inner.Charge(50);
  EXPECT_EQ(outer->used(), 50u);
  EXPECT_EQ(Thrown([&] { inner.Charge(31); }).code(), ErrorCode::kLimit);
  outer->Charge(40);
  EXPECT_THAT(Thrown([&] { inner.Charge(20); }).message(), HasSubstr("20 bytes more, beside 90"));
  EXPECT_EQ(inner.used(), 50u) << "what the outer one refused is not counted";
  inner.Credit(50);
  EXPECT_EQ(inner.used(), 0u);
  EXPECT_EQ(inner.peak(), 50u);
  EXPECT_EQ(outer->used(), 40u);
  EXPECT_EQ(Thrown([&] { inner.Charge(SIZE_MAX); }).code(), ErrorCode::kLimit);
}

TEST(RunScope, EndsWhatIsCancelledOrLate) {
  CheckRun();  // in no scope
  std::atomic<bool> cancelled{false};
  {
    RunScope scope("the test", {}, &cancelled);
    CheckRun();
    cancelled = true;
    EXPECT_THAT(Thrown(CheckRun).message(), HasSubstr("the test was cancelled"));
    RunScope inside("another", {});
    EXPECT_EQ(Thrown(CheckRun).code(), ErrorCode::kCancelled) << "what is around it ends it too";
  }
  CheckRun();
  Limits limits;
  limits.time = std::chrono::nanoseconds(1);
  RunScope late("the test", limits);
  EXPECT_EQ(Thrown(CheckRun).code(), ErrorCode::kDeadline);
  EXPECT_THAT(Thrown(CheckRun).message(), HasSubstr("--time-limit"));
}

TEST(RunScope, CountsIterationsTogether) {
  Limits limits;
  limits.iterations = 10;
  RunScope scope("the test", limits);
  scope.CountIteration(6);
  EXPECT_EQ(Thrown([&] { scope.CountIteration(5); }).code(), ErrorCode::kLimit);
}

TEST(RunScope, AccountsAreInherited) {
  EXPECT_EQ(RunScope::CurrentAccount(), nullptr);
  RunScope outer("outer", BytesOf(100));
  auto account = RunScope::CurrentAccount();
  ASSERT_NE(account, nullptr);
  {
    RunScope inside("inside", {});
    EXPECT_EQ(RunScope::CurrentAccount(), account);
    RunScope smaller("smaller", BytesOf(10));
    EXPECT_NE(RunScope::CurrentAccount(), account);
    Uncounted nobody;
    EXPECT_EQ(RunScope::CurrentAccount(), nullptr);
  }
  EXPECT_EQ(RunScope::CurrentAccount(), account);
}

TEST(RunScope, LoopsCarryItIntoTheirThreads) {
  for (int threads : {1, 4}) {
    ThreadPool pool(threads);
    std::atomic<bool> cancelled{false};
    RunScope scope("the loop", {}, &cancelled);
    std::atomic<int> outside{0}, pieces{0};
    pool.ParallelFor(64, 1, [&](int64_t, int64_t) { outside += RunScope::Current() != &scope; });
    EXPECT_EQ(outside, 0);
    auto cancel = [&](int64_t, int64_t) {
      ++pieces;
      cancelled = true;
    };
    EXPECT_EQ(Thrown([&] { pool.ParallelFor(64, 1, cancel); }).code(), ErrorCode::kCancelled);
    EXPECT_LE(pieces, threads) << "nobody begins a piece after that";
    cancelled = false, pieces = 0;
    EXPECT_EQ(Thrown([&] { RunPieces(64, 1, cancel); }).code(), ErrorCode::kCancelled);
    EXPECT_EQ(pieces, 1);
  }
  std::thread([] { EXPECT_EQ(RunScope::Current(), nullptr); }).join();
}

TEST(RunScope, NothingCutsALoopThatNothingCanEnd) {
  int pieces = 0;
  RunPieces(64, 1, [&](int64_t begin, int64_t end) {
    ++pieces;
    EXPECT_EQ(end - begin, 64);
  });
  EXPECT_EQ(pieces, 1);
}

}  // namespace
}  // namespace ferry
