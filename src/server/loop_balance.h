// How many of a server's loops have connections, and which.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "server/event_loop.h"

namespace ferry::server {

// In CPUs, over the last while.
struct LoopLoad {
  double busy = 0;    // what the loops that have connections took
  double idle = 0;    // what nobody took
  double others = 0;  // what other processes took
};

// One loop is enough until it has no time left: it takes several requests at a time, and clients on the same machine
// have the other CPUs. Another one helps where CPUs are idle meanwhile, and not where it takes them from the clients.
size_t LoopsWanted(size_t active, size_t most, const LoopLoad& load);

struct MachineTime {
  std::chrono::nanoseconds busy{0}, idle{0};
};

// Of all CPUs, by /proc/stat. Sandboxes that do not tell are taken to have nobody else in them.
MachineTime ReadMachineTime(const char* path, double cpus, std::chrono::nanoseconds wall,
                            std::chrono::nanoseconds process);

class LoopBalance {
 public:
  // `cpus`: what this process may use; 0: nothing is measured, and Use alone decides.
  LoopBalance(LoopGroup& group, std::vector<std::unique_ptr<EventLoop>>& loops, int cpus);

  EventLoop& ForNew() { return *loops_[next_++ % active_]; }
  size_t active() const { return active_; }
  // Connections move as soon as nothing is under way on them.
  void Use(size_t count);

 private:
  struct Clocks {
    std::chrono::nanoseconds wall{0}, loops{0}, process{0}, machine_busy{0}, machine_idle{0};
  };
  void OnTick(EventLoop& loop);
  void Measure();
  Clocks Read(bool with_machine) const;
  void Deal(EventLoop& loop);

  std::vector<std::unique_ptr<EventLoop>>& loops_;
  const double cpus_;
  std::atomic<size_t> active_{1};
  std::atomic<uint64_t> next_{0}, spread_{0};  // spread_: so many times loops were added
  std::vector<uint64_t> spread_seen_;          // each loop's own
  Clocks last_;
  size_t wanted_before_ = 1;
};

}  // namespace ferry::server
