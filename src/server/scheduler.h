// The queue of one model and the threads that empty it. Requests are joined into batches where a run of several rows is
// measured to cost less per row; small models run on the thread that read the request.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/batch_cost.h"
#include "server/infer.h"
#include "server/model_config.h"
#include "server/model_stats.h"

namespace ferry::server {

// What all models' runs share.
struct RunPolicy {
  std::atomic<int> running{0};  // of all models: a lone run gets every thread, others one each
  // Runs that are not small, and whether the last of them met another one: then the next will, too, and with every
  // thread it would cost more CPU time than alone.
  std::atomic<uint64_t> begun{0};
  std::atomic<bool> crowded{false};
  size_t max_queue = 4096;  // for models that do not say
  Limits limits;            // of each run
  std::chrono::microseconds inline_limit{150};
};

class Scheduler {
 public:
  // `wide` runs with all threads, `narrow` with the caller's alone; both share weights and programs.
  Scheduler(const ModelConfig& config, std::shared_ptr<Session> wide, std::shared_ptr<Session> narrow,
            ModelStats& stats, RunPolicy& policy, std::function<void(const std::string&)> log);
  ~Scheduler();  // what still waits is refused

  // `may_run_here`: the caller can spare some 100 µs. The job's done is called before or after this returns.
  void Submit(std::unique_ptr<Job> job, bool may_run_here);
  size_t pending() const;

 private:
  using Batch = std::vector<std::unique_ptr<Job>>;

  bool RunHere(std::unique_ptr<Job>& job);
  void Work();
  Batch TakeBatch(std::unique_lock<std::mutex>& lock);
  void DropExpired(std::unique_lock<std::mutex>& lock);  // gives the lock up while they are answered
  Clock::time_point EarliestDeadline() const;
  int64_t RowsToTake(int64_t first, int64_t available, bool waited);
  int64_t WishedRows(int64_t most, bool waited) const;  // 0: wait for more
  int64_t AvailableRows(const Job& first) const;
  struct RunCost {
    Clock::time_point begun, ended;
    double us = 0;
    bool is_wide = false;  // it had all threads of the runtime
  };
  void NoteCost(int64_t rows, const RunCost& cost);

  void Run(Batch batch);
  void RunOne(Job& job);
  bool IsSmall(double cost) const;
  bool Claim();  // one of the instances
  bool RunJoined(Batch& batch);
  bool Proves(const Batch& batch, const std::vector<Value>& joined);
  std::vector<Value> Compute(std::span<const NamedValue> inputs, const Job& job, RunCost& cost);
  void Finish(Job& job);

  const ModelConfig& config_;
  const std::shared_ptr<Session> wide_, narrow_;
  ModelStats& stats_;
  RunPolicy& policy_;
  const std::function<void(const std::string&)> log_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<uint64_t, std::deque<std::unique_ptr<Job>>> queues_;  // by priority; the lowest number goes first
  int idle_ = 0;
  // Changed under the mutex, but for running_; small models look at them without it.
  std::atomic<size_t> queued_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<double> cost_of_one_{0};  // microseconds; 0: not known
  std::atomic<uint32_t> runs_here_{0};
  std::vector<std::thread> workers_;
  BatchCost cost_;
  const bool has_wishes_;  // sizes or a delay that the configuration asks for
  std::atomic<bool> may_join_;
  std::atomic<int> proofs_{0};
};

}  // namespace ferry::server
