#include "server/loop_balance.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ferry::server {
namespace {

std::chrono::nanoseconds ReadClock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

MachineTime ReadMachineTime(const char* path, double cpus, std::chrono::nanoseconds wall,
                            std::chrono::nanoseconds process) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "r"), std::fclose);
  unsigned long long user = 0, nice = 0, system = 0, idle = 0, waiting = 0;
  const bool is_told =
      file && std::fscanf(file.get(), "cpu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &waiting) == 5;
  if (!is_told || user + nice + system + idle + waiting == 0)
    return {process, std::chrono::duration_cast<std::chrono::nanoseconds>(wall * cpus) - process};
  const auto ticks = std::chrono::nanoseconds(1'000'000'000 / sysconf(_SC_CLK_TCK));
  return {ticks * (user + nice + system), ticks * (idle + waiting)};
}

size_t LoopsWanted(size_t active, size_t most, const LoopLoad& load) {
  constexpr double kFull = 0.85, kFree = 0.5, kNone = 0.1, kFewer = 0.6;
  const auto count = static_cast<double>(active);
  if (load.busy >= kFull * count && load.idle >= kFree) {
    const auto more = static_cast<size_t>(std::max(1.0, std::floor(load.idle)));
    return std::min({most, 2 * active, active + more});
  }
  if (active == 1) return 1;
  const bool few_do = load.busy < kFewer * (count - 1);
  const bool in_the_way = load.idle < kNone && load.others >= kFree && load.busy < kFull * count;
  return few_do || in_the_way ? active - 1 : active;
}

LoopBalance::LoopBalance(LoopGroup& group, std::vector<std::unique_ptr<EventLoop>>& loops, int cpus)
    : loops_(loops), cpus_(cpus), spread_seen_(loops.size()) {
  if (loops.size() > 1) group.on_tick = [this](EventLoop& loop) { OnTick(loop); };
}

void LoopBalance::Use(size_t count) {
  const bool is_more = count > active_;
  active_ = count;
  if (is_more) ++spread_;  // whoever sees that deals to all of them
}

void LoopBalance::OnTick(EventLoop& loop) {
  const auto found = std::find_if(loops_.begin(), loops_.end(), [&](const auto& each) { return each.get() == &loop; });
  const auto index = static_cast<size_t>(found - loops_.begin());
  if (index == 0 && cpus_ > 0) Measure();
  const uint64_t spread = spread_;
  if (index >= active_ || spread != spread_seen_[index]) Deal(loop);
  spread_seen_[index] = spread;
}

LoopBalance::Clocks LoopBalance::Read(bool with_machine) const {
  Clocks out;
  out.wall = std::chrono::steady_clock::now().time_since_epoch();
  for (size_t i = 0; i < active_; ++i) out.loops += loops_[i]->BusyTime();
  out.process = ReadClock(CLOCK_PROCESS_CPUTIME_ID);
  if (!with_machine) return out;
  const MachineTime machine = ReadMachineTime("/proc/stat", cpus_, out.wall, out.process);
  out.machine_busy = machine.busy;
  out.machine_idle = machine.idle;
  return out;
}

void LoopBalance::Measure() {
  constexpr double kNearlyFull = 0.8;
  const size_t active = active_;
  const bool knew_machine = last_.machine_idle.count() > 0;
  const Clocks before = last_;
  last_ = Read(false);
  const auto share = [&](std::chrono::nanoseconds now, std::chrono::nanoseconds then) {
    return std::chrono::duration<double>(now - then) / std::chrono::duration<double>(last_.wall - before.wall);
  };
  LoopLoad load;
  load.busy = share(last_.loops, before.loops);
  // The machine's counters are only asked where they matter: with many CPUs they take a while.
  if (active == 1 && load.busy < kNearlyFull) {
    wanted_before_ = 1;
    return;
  }
  last_ = Read(true);
  if (!knew_machine) return;
  const double own = share(last_.process, before.process);
  load.idle = std::min(share(last_.machine_idle, before.machine_idle), cpus_ - own);
  load.others = share(last_.machine_busy, before.machine_busy) - own;
  const size_t wanted = LoopsWanted(active, loops_.size(), load);
  // Twice the same: what lasts a moment moves nobody.
  if (wanted != active && wanted == wanted_before_) {
    Use(wanted);
    last_ = {};
  }
  wanted_before_ = wanted;
}

void LoopBalance::Deal(EventLoop& loop) {
  loop.ForEach([&](Watched& watched) {
    if (EventLoop& next = ForNew(); &next != &loop) watched.MoveTo(next);
  });
}

}  // namespace ferry::server
