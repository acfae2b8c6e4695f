#include "base/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/run_scope.h"

namespace ferry {
namespace {

// More pieces than threads even out uneven work without costing much, and between two of them a run can be ended.
constexpr int64_t kMostPieces = 256;
constexpr int64_t kMostStretches = 64;

// Pieces of [0, count) of nearly the same length. Their number is even where the grain allows a choice: a half of one
// loop then is the same half of the next, and two threads have as much to do.
class Cuts {
 public:
  Cuts(int64_t count, int64_t grain)
      : count_(count), unit_(grain >= kLine && grain % kLine == 0 ? kLine : 1), units_((count + unit_ - 1) / unit_) {
    pieces_ = std::clamp<int64_t>(units_ / std::max<int64_t>(1, grain / unit_), 1, kMostPieces);
    if (pieces_ > 1 && pieces_ < units_) pieces_ &= ~int64_t{1};
  }

  int64_t pieces() const { return pieces_; }
  int64_t Begin(int64_t piece) const {
    const int64_t whole = units_ / pieces_, rest = units_ % pieces_;
    return std::min(count_, unit_ * (whole * piece + rest * piece / pieces_));
  }

 private:
  static constexpr int64_t kLine = 64;  // elements that share no cache line with others, nor bytes where they are bits

  int64_t count_, unit_, units_, pieces_;
};

using Clock = std::chrono::steady_clock;

// The steps of a network follow each other within microseconds, and waking a thread takes longer than many a step: a
// worker looks for the next loop for a while before it sleeps. The while grows when looking pays and shrinks when not.
constexpr std::chrono::microseconds kLeastPatience{20}, kMostPatience{200};
// Two looks lie well below a microsecond apart. A worker that sees more was put aside for others: there is no core to
// spare for looking.
constexpr std::chrono::microseconds kPutAside{100};
// Whoever started a loop waits for the last piece of it, which is short.
constexpr std::chrono::microseconds kFinishPatience{200};

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

enum class Look { kSeen, kInVain, kPutAside };

template <class Condition>
Look LookFor(std::chrono::nanoseconds patience, const Condition& condition) {
  constexpr int kLooks = 16;  // between two looks at the clock
  for (int i = 0; i < 4 * kLooks; ++i, Pause())
    if (condition()) return Look::kSeen;
  const Clock::time_point start = Clock::now();
  for (Clock::time_point last = start;;) {
    for (int i = 0; i < kLooks; ++i, Pause())
      if (condition()) return Look::kSeen;
    const Clock::time_point now = Clock::now();
    if (now - last > kPutAside) return Look::kPutAside;
    if (now - start > patience) return Look::kInVain;
    last = now;
  }
}

// Each thread begins with a stretch of its own, the same one in every loop, so that it mostly reads what it wrote in
// the step before: what another core wrote last is slow to read and slower to overwrite. Who is done takes from the far
// end of another's stretch.
class Stretch {
 public:
  void Set(int64_t first, int64_t last) { ends_.store(Pack(first, last), std::memory_order_relaxed); }
  int64_t TakeFirst() {
    return Take([](uint64_t ends) { return ends + 1; }, [](uint64_t ends) { return First(ends); });
  }
  int64_t TakeLast() {
    return Take([](uint64_t ends) { return ends - (uint64_t{1} << 32); }, [](uint64_t ends) { return Last(ends) - 1; });
  }

 private:
  static uint64_t Pack(int64_t first, int64_t last) {
    return static_cast<uint64_t>(last) << 32 | static_cast<uint64_t>(first);
  }
  static int64_t First(uint64_t ends) { return static_cast<int64_t>(ends & 0xffffffff); }
  static int64_t Last(uint64_t ends) { return static_cast<int64_t>(ends >> 32); }

  // -1 when nothing is left.
  template <class Shorten, class Taken>
  int64_t Take(const Shorten& shorten, const Taken& taken) {
    uint64_t ends = ends_.load(std::memory_order_relaxed);
    while (First(ends) < Last(ends))
      if (ends_.compare_exchange_weak(ends, shorten(ends), std::memory_order_relaxed)) return taken(ends);
    return -1;
  }

  alignas(64) std::atomic<uint64_t> ends_{0};
};

class Loop {
 public:
  Loop(FunctionRef<void(int64_t, int64_t)> body, const Cuts& cuts, int threads)
      : body_(body),
        cuts_(cuts),
        stretch_count_(std::min({pieces(), int64_t{threads}, kMostStretches})),
        scope_(RunScope::Current()),
        may_stop_(scope_ && scope_->may_stop()) {
    for (int64_t i = 0; i < stretch_count_; ++i)
      stretches_[i].Set(pieces() * i / stretch_count_, pieces() * (i + 1) / stretch_count_);
  }

  int64_t pieces() const { return cuts_.pieces(); }

  void Work(int thread) {
    InScope in_scope(scope_);
    const int64_t own = thread % stretch_count_;
    for (int64_t index; thread < stretch_count_ && (index = stretches_[own].TakeFirst()) >= 0;) RunPiece(index);
    for (int64_t i = 0; i < stretch_count_; ++i)
      for (int64_t index; (index = stretches_[(own + i) % stretch_count_].TakeLast()) >= 0;) RunPiece(index);
  }

  void Rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void RunPiece(int64_t index) {
    if (failed_.load(std::memory_order_relaxed)) return;
    try {
      if (may_stop_) scope_->Check();
      body_(cuts_.Begin(index), cuts_.Begin(index + 1));
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
  }

  const FunctionRef<void(int64_t, int64_t)> body_;
  const Cuts cuts_;
  const int64_t stretch_count_;
  RunScope* const scope_;
  const bool may_stop_;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  Stretch stretches_[kMostStretches];
};

// Apart from its callers, which mostly do without cuts.
[[gnu::noinline]] void RunAlone(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  const Cuts cuts(count, grain);
  for (int64_t i = 0; i < cuts.pieces(); ++i) {
    CheckRun();
    body(cuts.Begin(i), cuts.Begin(i + 1));
  }
}

// Counts forks: a child has none of the threads that its parent's crews are made of.
std::atomic<uint64_t>& Forks() {
  static std::atomic<uint64_t> count{0};
  static const int watching = pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  (void)watching;
  return count;
}

// Workers and the loop they are called to. One word says how things stand, so that a loop starts and ends without a
// lock as long as nobody sleeps: how many workers are inside, whether it is open to more, and which loop it is.
class Crew {
 public:
  explicit Crew(int count) {
    for (int i = 1; i < count; ++i) threads_.emplace_back([this, i] { Serve(i); });
  }
  ~Crew() {
    state_.fetch_or(kStopping);
    { std::lock_guard lock(mutex_); }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  bool IsOfThisProcess() const { return born_ == Forks().load(std::memory_order_relaxed); }

  // False when another loop has the team.
  bool Run(Loop& loop) {
    if (threads_.empty() || busy_.exchange(true, std::memory_order_acquire)) return false;
    Start(loop);
    loop.Work(0);
    Finish();
    busy_.store(false, std::memory_order_release);
    return true;
  }

 private:
  static constexpr uint64_t kInside = 0xffff;  // a count; there are at most 1024 threads
  static constexpr uint64_t kOpen = 1 << 16, kAwaited = 1 << 17, kStopping = 1 << 18;
  static constexpr int kNumberShift = 32;

  static uint32_t NumberOf(uint64_t state) { return static_cast<uint32_t>(state >> kNumberShift); }

  void Start(Loop& loop) {
    loop_ = &loop;
    // Either a worker that goes to sleep sees the new number, or it is seen among the sleepers.
    state_.fetch_add((uint64_t{1} << kNumberShift) | kOpen);
    if (sleeping_.load() == 0) return;
    { std::lock_guard lock(mutex_); }
    if (loop.pieces() - 1 >= static_cast<int64_t>(threads_.size())) return wake_.notify_all();
    for (int64_t i = 1; i < loop.pieces(); ++i) wake_.notify_one();
  }

  void Finish() {
    auto all_left = [&] { return (state_.load(std::memory_order_acquire) & kInside) == 0; };
    if ((state_.fetch_and(~kOpen, std::memory_order_acq_rel) & kInside) == 0) return;
    if (LookFor(kFinishPatience, all_left) == Look::kSeen) return;
    state_.fetch_or(kAwaited);
    std::unique_lock lock(mutex_);
    done_.wait(lock, all_left);
    state_.fetch_and(~kAwaited, std::memory_order_relaxed);
  }

  void Serve(int thread) {
    uint32_t seen = 0;
    std::chrono::nanoseconds patience = kMostPatience;
    for (;;) {
      auto called = [&] {
        uint64_t state = state_.load();
        return NumberOf(state) != seen || (state & kStopping);
      };
      Look look = LookFor(patience, called);
      patience = look == Look::kSeen     ? std::min<std::chrono::nanoseconds>(kMostPatience, patience * 2)
                 : look == Look::kInVain ? std::max<std::chrono::nanoseconds>(kLeastPatience, patience / 2)
                                         : kLeastPatience;
      if (look != Look::kSeen) Sleep(called);
      uint64_t state = state_.load(std::memory_order_relaxed);
      if (state & kStopping) return;
      seen = NumberOf(state);
      if (Enter(state)) {
        loop_->Work(thread);
        Leave();
      }
    }
  }

  template <class Condition>
  void Sleep(const Condition& called) {
    std::unique_lock lock(mutex_);
    sleeping_.fetch_add(1);
    wake_.wait(lock, called);
    sleeping_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Only the loop that `state` tells of, and only while it is open: it stays until whoever entered has left.
  bool Enter(uint64_t state) {
    const uint32_t number = NumberOf(state);
    while (NumberOf(state) == number && (state & kOpen))
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    return false;
  }

  void Leave() {
    uint64_t before = state_.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & kInside) != 1 || !(before & kAwaited)) return;
    { std::lock_guard lock(mutex_); }
    done_.notify_one();
  }

  alignas(64) std::atomic<uint64_t> state_{0};
  Loop* loop_ = nullptr;  // read by workers that entered
  alignas(64) std::atomic<bool> busy_{false};
  std::atomic<int> sleeping_{0};
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  const uint64_t born_ = Forks().load(std::memory_order_relaxed);
};

}  // namespace

struct ThreadPool::Team {
  explicit Team(int threads) : size(threads), crew(new Crew(threads)) {}
  ~Team() {
    if (Crew* last = crew.load(); last->IsOfThisProcess()) delete last;
  }

  // A forked child makes a crew of its own. The old one is left alone: its threads, and the locks they may hold, are
  // the parent's.
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
  const Cuts cuts(count, grain);
  if (cuts.pieces() > 1 && team_->size > 1) {
    Loop loop(body, cuts, team_->size);
    if (team_->Current().Run(loop)) return loop.Rethrow();
  }
  RunAlone(count, grain, body);
}

void RunPieces(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (count <= 0) return;
  const RunScope* const scope = RunScope::Current();
  if (!scope || !scope->may_stop()) [[likely]]
    return body(0, count);
  RunAlone(count, grain, body);
}

}  // namespace ferry
