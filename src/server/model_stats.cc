#include "server/model_stats.h"

#include <algorithm>
#include <atomic>

#include "server/infer.h"

namespace ferry::server {

Json StatDuration::ToJson() const { return Json().Set("count", count).Set("ns", ns); }

void Histogram::Add(double microseconds) {
  const auto bucket = std::lower_bound(kBoundsUs.begin(), kBoundsUs.end(), microseconds) - kBoundsUs.begin();
  ++counts[static_cast<size_t>(bucket)];
  sum_us += microseconds;
}

void Histogram::Add(const Histogram& other) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  sum_us += other.sum_us;
}

double Histogram::Quantile(double q) const {
  uint64_t total = 0;
  for (uint64_t count : counts) total += count;
  if (total == 0) return 0;
  const double wanted = q * static_cast<double>(total);
  double before = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto count = static_cast<double>(counts[i]);
    if (before + count >= wanted && count > 0) {
      const double low = i == 0 ? 0 : kBoundsUs[i - 1],
                   high = i < kBoundsUs.size() ? kBoundsUs[i] : kBoundsUs.back() * 2;
      return low + (high - low) * (wanted - before) / count;
    }
    before += count;
  }
  return kBoundsUs.back();
}

namespace {

double Microseconds(Clock::duration time) {
  return std::max(0.0, std::chrono::duration<double, std::micro>(time).count());
}

}  // namespace

ModelStats::Part& ModelStats::Mine() {
  static std::atomic<size_t> next{0};
  static thread_local const size_t index = next++;
  return parts_[index % parts_.size()];
}

void ModelStats::RecordSuccess(const Job& job) {
  const Clock::time_point now = Clock::now();
  Part& part = Mine();
  std::lock_guard lock(part.mutex);
  Data& data = part.data;
  data.success.Add(now - job.received);
  data.queue.Add(job.started - job.queued);
  data.compute_input.Add(job.run_begun - job.started);
  data.compute_infer.Add(job.run_ended - job.run_begun);
  data.compute_output.Add(now - job.run_ended);
  data.inference_count += static_cast<uint64_t>(job.rows);
  data.last_inference_ms = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
  data.request.Add(Microseconds(now - job.received));
  data.queued.Add(Microseconds(job.started - job.queued));
  data.compute.Add(Microseconds(job.run_ended - job.run_begun));
}

void ModelStats::RecordFailure(const Job& job, FailureReason reason) {
  Part& part = Mine();
  std::lock_guard lock(part.mutex);
  Data& data = part.data;
  data.fail.Add(Clock::now() - job.received);
  ++data.failures[static_cast<size_t>(reason)];
}

void ModelStats::RecordRun(int64_t rows, std::chrono::nanoseconds input, std::chrono::nanoseconds infer,
                           std::chrono::nanoseconds output) {
  constexpr size_t kMostSizes = 1024;
  Part& part = Mine();
  std::lock_guard lock(part.mutex);
  Data& data = part.data;
  ++data.execution_count;
  if (data.batches.size() >= kMostSizes && !data.batches.count(rows)) return;
  Data::Batch& batch = data.batches[rows];
  batch.input.Add(input);
  batch.infer.Add(infer);
  batch.output.Add(output);
}

void ModelStats::Data::Add(const Data& other) {
  last_inference_ms = std::max(last_inference_ms, other.last_inference_ms);
  inference_count += other.inference_count;
  execution_count += other.execution_count;
  success.Add(other.success);
  fail.Add(other.fail);
  queue.Add(other.queue);
  compute_input.Add(other.compute_input);
  compute_infer.Add(other.compute_infer);
  compute_output.Add(other.compute_output);
  for (size_t i = 0; i < failures.size(); ++i) failures[i] += other.failures[i];
  for (const auto& [rows, batch] : other.batches) {
    batches[rows].input.Add(batch.input);
    batches[rows].infer.Add(batch.infer);
    batches[rows].output.Add(batch.output);
  }
  request.Add(other.request);
  queued.Add(other.queued);
  compute.Add(other.compute);
}

ModelStats::Data ModelStats::Snapshot() const {
  Data sum;
  for (const Part& part : parts_) {
    std::lock_guard lock(part.mutex);
    sum.Add(part.data);
  }
  return sum;
}

Json StatisticsJson(const ModelStats::Data& data) {
  Json batches = Json::Array{};
  for (const auto& [size, batch] : data.batches)
    batches.Add(Json()
                    .Set("batch_size", size)
                    .Set("compute_input", batch.input.ToJson())
                    .Set("compute_infer", batch.infer.ToJson())
                    .Set("compute_output", batch.output.ToJson()));
  const Json none = StatDuration().ToJson();
  return Json()
      .Set("last_inference", data.last_inference_ms)
      .Set("inference_count", data.inference_count)
      .Set("execution_count", data.execution_count)
      .Set("inference_stats", Json()
                                  .Set("success", data.success.ToJson())
                                  .Set("fail", data.fail.ToJson())
                                  .Set("queue", data.queue.ToJson())
                                  .Set("compute_input", data.compute_input.ToJson())
                                  .Set("compute_infer", data.compute_infer.ToJson())
                                  .Set("compute_output", data.compute_output.ToJson())
                                  .Set("cache_hit", none)
                                  .Set("cache_miss", none))
      .Set("response_stats", Json(Json::Object{}))
      .Set("batch_stats", std::move(batches))
      .Set("memory_usage", Json(Json::Array{}));
}

}  // namespace ferry::server
