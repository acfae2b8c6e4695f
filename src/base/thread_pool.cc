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

// The steps of a network follow each other within microseconds: whoever waits looks for some tens of them before it
// sleeps, for waking up takes longer than many a step.
constexpr int kMostLooks = 1000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

template <class Condition>
bool SeenSoon(const Condition& condition) {
  for (int i = 0; i < kMostLooks; ++i) {
    if (condition()) return true;
    Pause();
  }
  return false;
}

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
  std::atomic<uint64_t> generation{0};  // of loops
  std::atomic<int> working{0};
  int sleeping = 0;
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
    for (;;) {
      bool called = SeenSoon([&] { return generation.load(std::memory_order_acquire) != seen; });
      std::unique_lock lock(mutex);
      if (!called) {
        ++sleeping;
        wake.wait(lock, [&] { return stopping || generation.load(std::memory_order_relaxed) != seen; });
        --sleeping;
      }
      if (stopping) return;
      seen = generation.load(std::memory_order_relaxed);
      Loop* mine = loop;
      if (!mine) continue;
      working.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      mine->Work();
      lock.lock();
      if (working.fetch_sub(1, std::memory_order_release) == 1) done.notify_one();
    }
  }

  void Start(Loop& started) {
    bool someone_sleeps;
    {
      std::lock_guard lock(mutex);
      loop = &started;
      generation.fetch_add(1, std::memory_order_release);
      someone_sleeps = sleeping > 0;
    }
    if (someone_sleeps) wake.notify_all();
  }

  void Finish() {
    {
      std::lock_guard lock(mutex);
      loop = nullptr;  // late wakers find nothing to do
    }
    auto all_done = [&] { return working.load(std::memory_order_acquire) == 0; };
    if (SeenSoon(all_done)) return;
    std::unique_lock lock(mutex);
    done.wait(lock, all_done);
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
  crew.Start(loop);
  loop.Work();
  crew.Finish();
  if (loop.failed) std::rethrow_exception(loop.failure);
}

}  // namespace ferry
