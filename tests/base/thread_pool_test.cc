#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ferry {
namespace {

// Every index once, whatever the cuts.
void ExpectCovered(ThreadPool& pool, int64_t count, int64_t grain) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
  pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    EXPECT_LT(begin, end);
    for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)].fetch_add(1);
  });
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(seen[static_cast<size_t>(i)], 1) << i << " of " << count;
}

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 3, 5, 9}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t count : {0, 1, 2, 3, 63, 64, 65, 1000, 4097})
      for (int64_t grain : {1, 7, 64, 5000}) ExpectCovered(pool, count, grain);
  }
}

TEST(ThreadPool, CutsDoNotDependOnThreads) {
  auto cuts = [](int threads) {
    ThreadPool pool(threads);
    std::vector<std::atomic<int64_t>> end_of(1000);
    pool.ParallelFor(1000, 3, [&](int64_t begin, int64_t end) { end_of[static_cast<size_t>(begin)] = end; });
    std::vector<int64_t> plain(end_of.begin(), end_of.end());
    return plain;
  };
  EXPECT_EQ(cuts(1), cuts(2));
  EXPECT_EQ(cuts(1), cuts(7));
}

TEST(ThreadPool, CutsAreEvenAndInWholeLines) {
  auto begins = [](int64_t count, int64_t grain) {
    ThreadPool pool(1);
    std::vector<int64_t> found;
    pool.ParallelFor(count, grain, [&](int64_t begin, int64_t) { found.push_back(begin); });
    return found;
  };
  using List = std::vector<int64_t>;
  EXPECT_EQ(begins(3, 2), List({0}));
  EXPECT_EQ(begins(3, 1), List({0, 1, 2}));
  EXPECT_EQ(begins(14, 4), List({0, 7}));  // not 4, 4, 4 and 2: one thread would have more to do
  EXPECT_EQ(begins(196, 18)[5], 98);
  for (int64_t begin : begins(100000, 640)) EXPECT_EQ(begin % 64, 0);
}

TEST(ThreadPool, LoopsFollowEachOtherClosely) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 20000; ++i)
    pool.ParallelFor(4, 1, [&](int64_t begin, int64_t end) { sum.fetch_add(end - begin, std::memory_order_relaxed); });
  EXPECT_EQ(sum, 80000);
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
  ThreadPool pool(2);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than a worker looks for work
    // Neither piece ends before the other has begun: both threads must take part.
    std::atomic<int> begun{0};
    pool.ParallelFor(2, 1, [&](int64_t, int64_t) {
      begun.fetch_add(1);
      while (begun.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(begun, 2);
  }
}

TEST(ThreadPool, WaitsForASlowPiece) {
  ThreadPool pool(2);
  std::atomic<bool> other_began{false}, finished{false};
  const std::thread::id caller = std::this_thread::get_id();
  pool.ParallelFor(2, 1, [&](int64_t, int64_t) {
    if (std::this_thread::get_id() == caller) {
      while (!other_began) std::this_thread::yield();
      return;
    }
    other_began = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than the caller looks for its end
    finished = true;
  });
  EXPECT_TRUE(finished);
}

TEST(ThreadPool, ThrowsTheFirstFailureAndGoesOn) {
  ThreadPool pool(3);
  for (int i = 0; i < 50; ++i) {
    auto fail = [&] {
      pool.ParallelFor(100, 1, [&](int64_t begin, int64_t end) {
        if (begin <= i && i < end) throw std::runtime_error("piece");
      });
    };
    EXPECT_THROW(fail(), std::runtime_error);
    ExpectCovered(pool, 100, 1);
  }
}

TEST(ThreadPool, LoopsInsideLoopsRunWhereTheyAre) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  pool.ParallelFor(8, 1, [&](int64_t, int64_t) {
    const std::thread::id outer = std::this_thread::get_id();
    pool.ParallelFor(8, 1, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      sum += end - begin;
    });
  });
  EXPECT_EQ(sum, 64);
}

TEST(ThreadPool, ManyCallersShareOneTeam) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) pool.ParallelFor(16, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 500 * 16);
}

}  // namespace
}  // namespace ferry
