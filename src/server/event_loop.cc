#include "server/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"

namespace ferry::server {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kShortWait{100}, kSpin{40};
constexpr std::chrono::milliseconds kTick{250}, kLateTick{1000};

}  // namespace

EventLoop::EventLoop(LoopGroup& group) : group_(group), scratch_(64 * 1024, '\0') {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || wake_ < 0) Fail(ErrorCode::kIo, "the system gives no more descriptors");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

EventLoop::~EventLoop() {
  Stop();
  watched_.clear();
  close(wake_);
  close(epoll_);
}

void EventLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void EventLoop::Stop() {
  stopping_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_, &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
}

void EventLoop::Do(std::function<void()> work) {
  if (IsHere()) return work();
  Later(std::move(work));
}

void EventLoop::Later(std::function<void()> work) {
  bool is_first;
  {
    std::lock_guard lock(mutex_);
    is_first = posted_.empty();
    posted_.push_back(std::move(work));
  }
  if (!is_first) return;
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_, &one, sizeof(one));
}

void EventLoop::DoPosted() {
  std::vector<std::function<void()>> work;
  {
    std::lock_guard lock(mutex_);
    work.swap(posted_);
  }
  for (auto& item : work) try {
      item();
    } catch (const std::exception&) {  // for want of memory: whoever asked is not answered, the others are
    }
}

uint64_t EventLoop::NextNumber() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

void EventLoop::Add(int descriptor, uint64_t number, std::unique_ptr<Watched> watched) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = number;
  // Nobody is to fail at being removed.
  if (const size_t all = removed_.size() + watched_.size() + 1; removed_.capacity() < all) removed_.reserve(2 * all);
  watched_[number] = std::move(watched);
  epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
}

Watched* EventLoop::Find(uint64_t number) {
  auto found = watched_.find(number);
  return found == watched_.end() ? nullptr : found->second.get();
}

void EventLoop::Remove(int descriptor, uint64_t number) {
  if (std::unique_ptr<Watched> watched = Release(descriptor, number)) removed_.push_back(std::move(watched));
}

std::unique_ptr<Watched> EventLoop::Release(int descriptor, uint64_t number) {
  auto found = watched_.find(number);
  if (found == watched_.end()) return nullptr;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor, nullptr);
  std::unique_ptr<Watched> watched = std::move(found->second);
  watched_.erase(found);
  return watched;
}

std::chrono::nanoseconds EventLoop::BusyTime() const {
  timespec time{};
  if (const int clock = cpu_clock_; clock != -1) clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec - spun_ns_);
}

void EventLoop::ForEach(const std::function<void(Watched&)>& visit) {
  std::vector<uint64_t> numbers;
  for (const auto& [number, watched] : watched_) numbers.push_back(number);
  for (uint64_t number : numbers)
    if (Watched* watched = Find(number)) visit(*watched);
}

bool EventLoop::MaySpin() const {
  return group_.may_spin && group_.awake.load(std::memory_order_relaxed) <= 1 &&
         (!group_.running || group_.running->load(std::memory_order_relaxed) == 0);
}

int EventLoop::Spin(epoll_event* events, int most) {
  const auto begun = seen_;
  int count = 0;
  do {
    count = epoll_wait(epoll_, events, most, 0);
    Advance();
  } while (count == 0 && MaySpin() && seen_ < begun + kSpin);
  spun_ns_ += std::chrono::nanoseconds(seen_ - begun).count();
  return count;
}

int EventLoop::Wait(epoll_event* events, int most, int milliseconds) {
  Advance();
  if (short_waits_ >= waits_before_spin_ && MaySpin()) {
    if (const int count = Spin(events, most); count != 0) {
      waits_before_spin_ = kFirstTrial;
      short_waits_ = waits_before_spin_;
      return count;
    }
    short_waits_ = 0;
    waits_before_spin_ = std::min(2 * waits_before_spin_, kMostBeforeTrial);
  }
  group_.awake.fetch_sub(1, std::memory_order_relaxed);
  const int count = epoll_wait(epoll_, events, most, milliseconds);
  group_.awake.fetch_add(1, std::memory_order_relaxed);
  short_waits_ = Advance() < kShortWait ? std::min(short_waits_ + 1, kMostBeforeTrial) : 0;
  return count;
}

// How long ago it was called last.
Clock::duration EventLoop::Advance() {
  const auto now = Clock::now();
  const auto passed = now - seen_;
  seen_ = now;
  now_ += std::min<Clock::duration>(passed, 2 * kTick);
  return passed;
}

void EventLoop::Run() {
  thread_id_ = std::this_thread::get_id();
  if (clockid_t clock; pthread_getcpuclockid(pthread_self(), &clock) == 0) cpu_clock_ = clock;
  constexpr int kMostEvents = 128;
  epoll_event events[kMostEvents];
  auto next_tick = now_ + kTick;
  ++group_.awake;
  while (!stopping_) {
    // What was there when a tick fell due is read before it: after a pause of the machine that is a lot.
    const auto due = now_;
    const int count = Wait(events, kMostEvents, due < next_tick ? static_cast<int>(kTick.count()) : 0);
    bool is_posted = false;
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == 0) {
        uint64_t value;
        [[maybe_unused]] ssize_t got = read(wake_, &value, sizeof(value));
        is_posted = true;
        continue;
      }
      const uint32_t flags = events[i].events;
      if (Watched* watched = Find(events[i].data.u64)) try {
          watched->OnReady((flags & (EPOLLIN | EPOLLRDHUP)) != 0, (flags & EPOLLOUT) != 0,
                           (flags & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) != 0);
        } catch (const std::exception&) {
          watched->OnFailure();
        }
    }
    if (is_posted) DoPosted();
    removed_.clear();
    if (due < next_tick || count < 0 || (count == kMostEvents && due < next_tick + kLateTick)) continue;
    next_tick = due + kTick;
    Tick(due);
    removed_.clear();
  }
}

// For want of memory somebody's connection may end, and the others' go on.
void EventLoop::Tick(Clock::time_point now) try {
  ForEach([now](Watched& watched) {
    try {
      watched.OnTick(now);
    } catch (const std::exception&) {
      watched.OnFailure();
    }
  });
  group_.on_tick(*this);
} catch (const std::exception&) {
}

}  // namespace ferry::server
