#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace ferry {
namespace {

// More pieces than threads even out uneven work without costing much.
constexpr int64_t kMostPieces = 64;

struct Loop {
  FunctionRef<void(int64_t, int64_t)> body;
  int64_t count, piece, pieces;
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;

  void Work() {
    for (;;) {
      int64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= pieces || failed.load(std::memory_order_relaxed)) return;
      try {
        body(index * piece, std::min(count, (index + 1) * piece));
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    }
  }
};

}  // namespace

struct ThreadPool::Team {
  std::mutex busy;  // held by the loop that has the team
  std::mutex mutex;
  std::condition_variable wake, done;
  Loop* loop = nullptr;
  uint64_t generation = 0;
  int working = 0;
  bool stopping = false;
  std::vector<std::thread> threads;

  void Serve() {
    uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return stopping || generation != seen; });
      if (stopping) return;
      seen = generation;
      Loop* mine = loop;
      if (!mine) continue;
      ++working;
      lock.unlock();
      mine->Work();
      lock.lock();
      if (--working == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : team_(std::make_unique<Team>()) {
  for (int i = 1; i < threads; ++i) team_->threads.emplace_back([team = team_.get()] { team->Serve(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(team_->mutex);
    team_->stopping = true;
  }
  team_->wake.notify_all();
  for (std::thread& thread : team_->threads) thread.join();
}

int ThreadPool::threads() const { return static_cast<int>(team_->threads.size()) + 1; }

void ThreadPool::ParallelFor(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (count <= 0) return;
  int64_t piece = std::max<int64_t>({1, grain, (count + kMostPieces - 1) / kMostPieces});
  int64_t pieces = (count + piece - 1) / piece;
  std::unique_lock holding(team_->busy, std::defer_lock);
  if (pieces == 1 || team_->threads.empty() || !holding.try_lock()) {
    for (int64_t i = 0; i < pieces; ++i) body(i * piece, std::min(count, (i + 1) * piece));
    return;
  }
  Loop loop{body, count, piece, pieces};
  {
    std::lock_guard lock(team_->mutex);
    team_->loop = &loop;
    ++team_->generation;
  }
  team_->wake.notify_all();
  loop.Work();
  std::unique_lock lock(team_->mutex);
  team_->loop = nullptr;  // late wakers find nothing to do
  team_->done.wait(lock, [&] { return team_->working == 0; });
  if (loop.failed) std::rethrow_exception(loop.failure);
}

}  // namespace ferry
