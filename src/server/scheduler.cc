#include "server/scheduler.h"

#include <time.h>

#include <algorithm>

#include "server/tensor_join.h"

namespace ferry::server {
namespace {

constexpr int kProofsWanted = 3;
constexpr double kLongRunUs = 500;

// CPU time of this thread: others that want the CPU do not make a run look dearer.
double ThreadMicroseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

}  // namespace

Scheduler::Scheduler(const ModelConfig& config, std::shared_ptr<Session> wide, std::shared_ptr<Session> narrow,
                     ModelStats& stats, RunPolicy& policy, std::function<void(const std::string&)> log)
    : config_(config),
      wide_(std::move(wide)),
      narrow_(std::move(narrow)),
      stats_(stats),
      policy_(policy),
      log_(std::move(log)),
      has_wishes_(config.dynamic_batching && (!config.preferred_sizes.empty() || config.queue_delay_us > 0)),
      may_join_(config.dynamic_batching) {}

Scheduler::~Scheduler() {
  Batch left;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& [level, queue] : queues_)
      for (auto& job : queue) left.push_back(std::move(job));
    queues_.clear();
    queued_ = 0;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  for (auto& job : left) {
    job->error.emplace(Code::kUnavailable, Cat("model '", config_.name, "' is unloading"));
    Finish(*job);
  }
}

size_t Scheduler::pending() const {
  std::lock_guard lock(mutex_);
  return queued_;
}

void Scheduler::Submit(std::unique_ptr<Job> job, bool may_run_here) {
  const uint64_t asked = job->request.priority;
  const uint64_t level = config_.priority_levels == 0                    ? 0
                         : asked == 0 || asked > config_.priority_levels ? config_.default_priority
                                                                         : asked;
  const QueuePolicy& policy = config_.PolicyOf(level);
  uint64_t timeout = policy.default_timeout_us;
  if (job->request.timeout_us > 0 && policy.allow_override && (timeout == 0 || job->request.timeout_us < timeout))
    timeout = job->request.timeout_us;
  job->queued = Clock::now();
  if (timeout > 0)
    job->deadline = job->queued + std::chrono::microseconds(std::min<uint64_t>(timeout, uint64_t{1} << 40));
  if (may_run_here && RunHere(job)) return;
  std::unique_lock lock(mutex_);
  std::deque<std::unique_ptr<Job>>& queue = queues_[level];
  const size_t most = policy.max_queue_size > 0 ? policy.max_queue_size : policy_.max_queue;
  if (stopping_ || queue.size() >= most) {
    job->error.emplace(Code::kUnavailable, stopping_ ? Cat("model '", config_.name, "' is unloading")
                                                     : std::string("Exceeds maximum queue size"));
    lock.unlock();
    Finish(*job);
    return;
  }
  queue.push_back(std::move(job));
  ++queued_;
  if (idle_ == 0 && static_cast<int>(workers_.size()) < config_.instances) workers_.emplace_back([this] { Work(); });
  lock.unlock();
  wake_.notify_one();
}

bool Scheduler::IsSmall(double cost) const {
  return cost > 0 && cost < static_cast<double>(policy_.inline_limit.count());
}

bool Scheduler::Claim() {
  int running = running_;
  while (running < config_.instances)
    if (running_.compare_exchange_weak(running, running + 1)) return true;
  return false;
}

// Without a lock, which the threads of the connections would wait for. False: the job is to be queued.
bool Scheduler::RunHere(std::unique_ptr<Job>& job) {
  if (has_wishes_) return false;  // others may join it
  if (queued_ > 0 || job->rows != 1 || stopping_ || !IsSmall(cost_of_one_)) return false;
  if (!Claim()) return false;
  job->started = job->queued;
  RunOne(*job);
  Finish(*job);
  running_.fetch_sub(1);
  if (queued_ > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_one();
  }
  return true;
}

void Scheduler::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [&] { return stopping_ || (queued_ > 0 && Claim()); });
    --idle_;
    if (stopping_) return;
    Batch batch = TakeBatch(lock);
    lock.unlock();
    if (!batch.empty()) Run(std::move(batch));
    lock.lock();
    --running_;
    if (queued_ > 0 && idle_ > 0) wake_.notify_one();
  }
}

void Scheduler::DropExpired(std::unique_lock<std::mutex>& lock) {
  const Clock::time_point now = Clock::now();
  Batch dropped;
  std::deque<std::unique_ptr<Job>> delayed;
  for (auto& [level, queue] : queues_) {
    const QueuePolicy& policy = config_.PolicyOf(level);
    for (auto job = queue.begin(); job != queue.end();) {
      const bool is_cancelled = (*job)->request.cancelled && (*job)->request.cancelled->load(std::memory_order_relaxed);
      if ((*job)->deadline > now && !is_cancelled) {
        ++job;
        continue;
      }
      if (is_cancelled)
        (*job)->error.emplace(Code::kCancelled, "Request cancelled");
      else if (!policy.delays)
        (*job)->error.emplace(Code::kUnavailable, "Request timeout expired");
      else
        (*job)->deadline = Clock::time_point::max();
      if ((*job)->error) {
        dropped.push_back(std::move(*job));
        --queued_;
      } else {
        delayed.push_back(std::move(*job));
      }
      job = queue.erase(job);
    }
  }
  // Behind everything else.
  constexpr uint64_t kLast = ~uint64_t{0};
  for (auto& job : delayed) queues_[kLast].push_back(std::move(job));
  if (dropped.empty()) return;
  lock.unlock();
  for (auto& job : dropped) Finish(*job);
  lock.lock();
}

Clock::time_point Scheduler::EarliestDeadline() const {
  Clock::time_point earliest = Clock::time_point::max();
  for (const auto& [level, queue] : queues_)
    for (const auto& job : queue) earliest = std::min(earliest, job->deadline);
  return earliest;
}

int64_t Scheduler::AvailableRows(const Job& first) const {
  int64_t rows = 0;
  for (const auto& [level, queue] : queues_)
    for (const auto& job : queue)
      if (CanJoin(first, *job)) rows += job->rows;
  return rows;
}

// How many rows a run should have now that begins with a request of `first` rows; 0: wait for more.
int64_t Scheduler::RowsToTake(int64_t first, int64_t available, bool waited) {
  // While a batch is still to be proven its rows are computed twice: with two requests that is soon done.
  const bool is_proven = !config_.is_batch_assumed || proofs_.load(std::memory_order_relaxed) >= kProofsWanted;
  const int64_t most = is_proven ? config_.max_batch_size : std::min<int64_t>(config_.max_batch_size, 2 * first);
  if (!has_wishes_) return cost_.Choose(available, most, config_.instances, !config_.is_batch_assumed, first);
  return WishedRows(most, waited);
}

// By Triton's rule: the largest preferred size that can be had; what there is when no preferred size can grow out of
// it, or when the oldest has waited for the delay.
int64_t Scheduler::WishedRows(int64_t most, bool waited) const {
  const std::vector<int64_t>& sizes = config_.preferred_sizes;
  const int64_t largest = sizes.empty() ? most : std::min(sizes.back(), most);
  const bool is_late = waited && config_.queue_delay_us > 0;
  int64_t rows = 0, best = 0;
  bool is_full = false;
  const Job* first = nullptr;
  for (const auto& [level, queue] : queues_)
    for (const auto& job : queue) {
      if (!first) first = job.get();
      if (!CanJoin(*first, *job)) {
        is_full = true;  // it would have to wait for what it cannot be part of
        continue;
      }
      if (rows > 0 && rows + job->rows > largest && best == 0) best = rows;
      if (rows > 0 && rows + job->rows > most) return best > 0 && !is_late ? best : rows;
      rows += job->rows;
      if (std::find(sizes.begin(), sizes.end(), rows) != sizes.end()) best = rows;
    }
  if (best > 0 && !is_late) return best;
  return is_full || rows >= largest || waited ? rows : 0;
}

Scheduler::Batch Scheduler::TakeBatch(std::unique_lock<std::mutex>& lock) {
  auto first_queue = [&] {
    return std::find_if(queues_.begin(), queues_.end(), [](const auto& entry) { return !entry.second.empty(); });
  };
  Batch batch;
  int64_t wanted = 1;
  auto queue = queues_.end();
  while (true) {
    DropExpired(lock);
    queue = first_queue();
    if (queue == queues_.end()) return batch;
    if (!may_join_.load(std::memory_order_relaxed)) break;
    const Job& first = *queue->second.front();
    const int64_t available = has_wishes_ ? 0 : AvailableRows(first);
    const auto until = first.queued + std::chrono::microseconds(config_.queue_delay_us);
    const bool waited = Clock::now() >= until || stopping_;
    wanted = RowsToTake(first.rows, available, waited);
    if (wanted > 0) break;
    wake_.wait_until(lock, std::min(until, EarliestDeadline()));
  }
  int64_t rows = queue->second.front()->rows;
  batch.push_back(std::move(queue->second.front()));
  queue->second.pop_front();
  --queued_;
  for (auto& [level, jobs] : queues_)
    for (auto job = jobs.begin(); job != jobs.end() && rows < wanted;) {
      if (rows + (*job)->rows > wanted || !CanJoin(*batch.front(), **job)) {
        ++job;
        continue;
      }
      rows += (*job)->rows;
      batch.push_back(std::move(*job));
      job = jobs.erase(job);
      --queued_;
    }
  return batch;
}

void Scheduler::NoteCost(int64_t rows, const RunCost& cost) {
  // What small runs cost is known after the first, and hardly changes.
  constexpr uint32_t kKnown = 64, kEvery = 16;
  if (rows == 1 && IsSmall(cost_of_one_)) {
    const uint32_t runs = runs_here_.fetch_add(1, std::memory_order_relaxed);
    if (runs > kKnown && runs % kEvery != 0) return;
  }
  std::lock_guard lock(mutex_);
  cost.is_wide ? cost_.NoteShared(rows, cost.us) : cost_.Note(rows, cost.us);
  cost_of_one_ = cost_.OfOne();
}

std::vector<Value> Scheduler::Compute(std::span<const NamedValue> inputs, const Job& job, RunCost& cost) {
  struct Counted {
    explicit Counted(std::atomic<int>& count) : count(count), alone(count.fetch_add(1) == 0) {}
    ~Counted() { count.fetch_sub(1); }
    std::atomic<int>& count;
    const bool alone;
  } counted(policy_.running);
  RunOptions options;
  options.time_limit = policy_.limits.time;
  options.max_bytes = policy_.limits.bytes;
  options.cancelled = job.request.cancelled.get();
  const double of_one = cost_of_one_;
  const bool is_small = IsSmall(of_one);
  const uint64_t turn = is_small ? 0 : ++policy_.begun;
  cost.is_wide = counted.alone && !is_small && !policy_.crowded && queued_ == 0 && wide_ != narrow_;
  const bool by_thread = !cost.is_wide && of_one > kLongRunUs;
  const double thread_begun = by_thread ? ThreadMicroseconds() : 0;
  cost.begun = Clock::now();
  std::vector<Value> outputs = (cost.is_wide ? *wide_ : *narrow_).Run(inputs, job.output_names, options);
  cost.ended = Clock::now();
  if (!is_small) policy_.crowded = !counted.alone || policy_.begun != turn;
  cost.us = by_thread ? ThreadMicroseconds() - thread_begun
                      : std::chrono::duration<double, std::micro>(cost.ended - cost.begun).count();
  return outputs;
}

void Scheduler::RunOne(Job& job) {
  RunCost cost;
  try {
    job.outputs = Compute(job.request.inputs, job, cost);
  } catch (...) {
    job.error = CurrentRefusal();
    cost.ended = Clock::now();
  }
  job.run_begun = cost.begun;
  job.run_ended = cost.ended;
  job.batch = job.rows;
  if (job.error) return;
  NoteCost(job.rows, cost);
  stats_.RecordRun(job.rows, job.run_begun - job.started, job.run_ended - job.run_begun, {});
}

void Scheduler::Run(Batch batch) {
  const Clock::time_point now = Clock::now();
  for (auto& job : batch) job->started = now;
  if (batch.size() == 1 || !RunJoined(batch))
    for (auto& job : batch) RunOne(*job);
  for (auto& job : batch) Finish(*job);
}

// False: nothing is answered, and each is to be run by itself.
bool Scheduler::RunJoined(Batch& batch) {
  try {
    const std::vector<NamedValue> inputs = JoinInputs(batch);
    int64_t rows = 0;
    for (const auto& job : batch) rows += job->rows;
    RunCost cost;
    const std::vector<Value> outputs = Compute(inputs, *batch.front(), cost);
    const auto [begun, ended] = std::pair(cost.begun, cost.ended);
    if (!HaveRows(outputs, rows) || !Proves(batch, outputs)) {
      if (may_join_.exchange(false))
        log_(Cat("model '", config_.name, "': requests are no longer joined: its first dimension is no batch"));
      return false;
    }
    NoteCost(rows, cost);
    int64_t row = 0;
    for (auto& job : batch) {
      job->run_begun = begun;
      job->run_ended = ended;
      job->batch = rows;
      job->outputs = RowsOf(outputs, row, job->rows);
      row += job->rows;
    }
    stats_.RecordRun(rows, begun - batch.front()->started, ended - begun, Clock::now() - ended);
    return true;
  } catch (...) {
    for (auto& job : batch) job->outputs.clear();
    return false;  // whoever is to blame gets the error
  }
}

// That a batch dimension was only assumed is made up for by the first batches: alone, each request must give the same.
bool Scheduler::Proves(const Batch& batch, const std::vector<Value>& joined) {
  if (!config_.is_batch_assumed || proofs_.load(std::memory_order_relaxed) >= kProofsWanted) return true;
  int64_t row = 0;
  for (const auto& job : batch) {
    RunCost cost;
    const std::vector<Value> alone = Compute(job->request.inputs, *job, cost);
    NoteCost(job->rows, cost);
    if (!AreClose(alone, RowsOf(joined, row, job->rows))) return false;
    row += job->rows;
  }
  ++proofs_;
  return true;
}

void Scheduler::Finish(Job& job) {
  if (job.error)
    stats_.RecordFailure(job, job.error->code() == Code::kCancelled      ? FailureReason::kCanceled
                              : job.error->code() == Code::kUnavailable  ? FailureReason::kRejected
                              : job.run_ended.time_since_epoch().count() ? FailureReason::kBackend
                                                                         : FailureReason::kOther);
  else
    stats_.RecordSuccess(job);
  job.done(job);
}

}  // namespace ferry::server
