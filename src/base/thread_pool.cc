#include "base/thread_pool.h"

#include <pthread.h>

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

// Counts forks: a child has none of the threads that its parent's crews are made of.
std::atomic<uint64_t>& Forks() {
  static std::atomic<uint64_t> count{0};
  static const int watching = pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  (void)watching;
  return count;
}

struct Crew {
  std::mutex busy;  // held by the loop that has the team
  std::mutex mutex;
  std::condition_variable wake, done;
  Loop* loop = nullptr;
  uint64_t generation = 0;
  int working = 0;
  bool stopping = false;
  std::vector<std::thread> threads;
  const uint64_t born = Forks().load(std::memory_order_relaxed);

  explicit Crew(int count) {
    for (int i = 1; i < count; ++i) threads.emplace_back([this] { Serve(); });
  }
  ~Crew() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  bool IsOfThisProcess() const { return born == Forks().load(std::memory_order_relaxed); }

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

}  // namespace

struct ThreadPool::Team {
  explicit Team(int threads) : size(threads), crew(new Crew(threads)) {}
  ~Team() {
    if (Crew* last = crew.load(); last->IsOfThisProcess()) delete last;
  }

  // A forked child makes a crew of its own. The old one is left alone: its threads, and the locks they may hold, are the
  // parent's.
  Crew& Current() {
    Crew* there = crew.load(std::memory_order_acquire);
    if (there->IsOfThisProcess()) [[likely]]
      return *there;
    Crew* fresh = new Crew(size);
    if (crew.compare_exchange_strong(there, fresh)) return *fresh;
    delete fresh;
    return *there;
  }

  const int size;
  std::atomic<Crew*> crew;
};

ThreadPool::ThreadPool(int threads) : team_(std::make_unique<Team>(std::max(1, threads))) {}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return team_->size; }

void ThreadPool::ParallelFor(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (count <= 0) return;
  int64_t piece = std::max<int64_t>({1, grain, (count + kMostPieces - 1) / kMostPieces});
  int64_t pieces = (count + piece - 1) / piece;
  Crew& crew = team_->Current();
  std::unique_lock holding(crew.busy, std::defer_lock);
  if (pieces == 1 || crew.threads.empty() || !holding.try_lock()) {
    for (int64_t i = 0; i < pieces; ++i) body(i * piece, std::min(count, (i + 1) * piece));
    return;
  }
  Loop loop{body, count, piece, pieces};
  {
    std::lock_guard lock(crew.mutex);
    crew.loop = &loop;
    ++crew.generation;
  }
  crew.wake.notify_all();
  loop.Work();
  std::unique_lock lock(crew.mutex);
  crew.loop = nullptr;  // late wakers find nothing to do
  crew.done.wait(lock, [&] { return crew.working == 0; });
  if (loop.failed) std::rethrow_exception(loop.failure);
}

}  // namespace ferry
