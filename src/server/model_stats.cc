#include "server/model_stats.h"

#include <algorithm>

#include "server/infer.h"

namespace ferry::server {

Json StatDuration::ToJson() const { return Json().Set("count", count).Set("ns", ns); }

void Histogram::Add(double microseconds) {
  const auto bucket = std::lower_bound(kBoundsUs.begin(), kBoundsUs.end(), microseconds) - kBoundsUs.begin();
  ++counts[static_cast<size_t>(bucket)];
  sum_us += microseconds;
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

void ModelStats::RecordSuccess(const Job& job) {
  const Clock::time_point now = Clock::now();
  std::lock_guard lock(mutex_);
  data_.success.Add(now - job.received);
  data_.queue.Add(job.started - job.queued);
  data_.compute_input.Add(job.run_begun - job.started);
  data_.compute_infer.Add(job.run_ended - job.run_begun);
  data_.compute_output.Add(now - job.run_ended);
  data_.inference_count += static_cast<uint64_t>(job.rows);
  data_.last_inference_ms = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
  data_.request.Add(Microseconds(now - job.received));
  data_.queued.Add(Microseconds(job.started - job.queued));
  data_.compute.Add(Microseconds(job.run_ended - job.run_begun));
}

void ModelStats::RecordFailure(const Job& job, FailureReason reason) {
  std::lock_guard lock(mutex_);
  data_.fail.Add(Clock::now() - job.received);
  ++data_.failures[static_cast<size_t>(reason)];
}

void ModelStats::RecordRun(int64_t rows, std::chrono::nanoseconds input, std::chrono::nanoseconds infer,
                           std::chrono::nanoseconds output) {
  constexpr size_t kMostSizes = 1024;
  std::lock_guard lock(mutex_);
  ++data_.execution_count;
  if (data_.batches.size() >= kMostSizes && !data_.batches.count(rows)) return;
  Data::Batch& batch = data_.batches[rows];
  batch.input.Add(input);
  batch.infer.Add(infer);
  batch.output.Add(output);
}

ModelStats::Data ModelStats::Snapshot() const {
  std::lock_guard lock(mutex_);
  return data_;
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
