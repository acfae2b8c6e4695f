// A thread that waits for sockets, and what other threads hand it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct epoll_event;

namespace ferry::server {

class EventLoop;

// Something with a descriptor. It is told of every change (edge-triggered) until it is removed.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual void OnReady(bool readable, bool writable, bool broken) = 0;
  virtual void OnFailure() {}                                            // OnReady threw: there was not enough memory
  virtual void OnTick(std::chrono::steady_clock::time_point /*now*/) {}  // four times a second
  virtual void MoveTo(EventLoop& /*next*/) {}                            // unless something is under way
};

// What the loops of a server know of each other, and of its runs.
struct LoopGroup {
  std::atomic<int> awake{0};                  // loops that are not asleep
  const std::atomic<int>* running = nullptr;  // runs of models under way
  bool may_spin = false;                      // there is a CPU to spare beside the one that a loop has
  std::atomic<bool> draining{false};
  std::function<void(EventLoop&)> on_tick = [](EventLoop&) {};  // on each loop's thread
};

class EventLoop {
 public:
  explicit EventLoop(LoopGroup& group);
  ~EventLoop();  // after Stop
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void Start();
  void Stop();
  bool IsHere() const { return std::this_thread::get_id() == thread_id_.load(std::memory_order_relaxed); }
  // On the loop's thread: at once where that is the caller's, else soon.
  void Do(std::function<void()> work);
  // On the loop's thread, soon, after what was handed over before.
  void Later(std::function<void()> work);

  // The rest is for the loop's own thread. The loop owns what it watches; numbers are never used again.
  void Add(int descriptor, uint64_t number, std::unique_ptr<Watched> watched);
  Watched* Find(uint64_t number);
  void Remove(int descriptor, uint64_t number);
  std::string& scratch() { return scratch_; }
  // What clients are held to is counted by it: it goes on while the loop does. After a pause of the machine nobody is
  // late whose bytes are still to be read.
  std::chrono::steady_clock::time_point now() const { return now_; }
  std::unique_ptr<Watched> Release(int descriptor, uint64_t number);
  void ForEach(const std::function<void(Watched&)>& visit);
  static uint64_t NextNumber();
  bool is_draining() const { return group_.draining; }
  // CPU time of its thread, without what it spent in looking for events; any thread may ask.
  std::chrono::nanoseconds BusyTime() const;

 private:
  void Run();
  void DoPosted();
  void Tick(std::chrono::steady_clock::time_point now);
  int Wait(epoll_event* events, int most, int milliseconds);
  int Spin(epoll_event* events, int most);
  bool MaySpin() const;
  std::chrono::steady_clock::duration Advance();

  LoopGroup& group_;
  // A client that sends its next request at once finds the loop awake: sleeping and being woken costs more than all the
  // rest. Only where events have been coming that fast, and ever more seldom where they then did not.
  int short_waits_ = 0, waits_before_spin_ = kFirstTrial;
  static constexpr int kFirstTrial = 8, kMostBeforeTrial = 8192;
  int epoll_ = -1, wake_ = -1;
  std::atomic<int> cpu_clock_{-1};
  std::atomic<int64_t> spun_ns_{0};
  std::chrono::steady_clock::time_point seen_ = std::chrono::steady_clock::now(), now_ = seen_;
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_{};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  std::unordered_map<uint64_t, std::unique_ptr<Watched>> watched_;
  std::vector<std::unique_ptr<Watched>> removed_;  // freed when nothing of theirs can be on the stack
  std::string scratch_;
};

}  // namespace ferry::server
