// What a model did since it was loaded: the protocol's statistics, and histograms for /metrics.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/json.h"

namespace ferry::server {

struct Job;

struct StatDuration {
  uint64_t count = 0, ns = 0;
  void Add(std::chrono::nanoseconds time) {
    ++count;
    ns += static_cast<uint64_t>(time.count() > 0 ? time.count() : 0);
  }
  void Add(const StatDuration& other) {
    count += other.count;
    ns += other.ns;
  }
  Json ToJson() const;
};

class Histogram {
 public:
  static constexpr std::array<double, 17> kBoundsUs = {50,    100, 250,   500, 1000, 2500,  5000, 10000, 25000,
                                                       50000, 1e5, 2.5e5, 5e5, 1e6,  2.5e6, 5e6,  1e7};
  void Add(double microseconds);
  void Add(const Histogram& other);
  std::array<uint64_t, kBoundsUs.size() + 1> counts{};
  double sum_us = 0;
  double Quantile(double q) const;  // microseconds, within a bucket
};

enum class FailureReason { kRejected, kCanceled, kBackend, kOther };

class ModelStats {
 public:
  struct Data {
    uint64_t last_inference_ms = 0, inference_count = 0, execution_count = 0;
    StatDuration success, fail, queue, compute_input, compute_infer, compute_output;
    std::array<uint64_t, 4> failures{};  // by FailureReason
    struct Batch {
      StatDuration input, infer, output;
    };
    std::map<int64_t, Batch> batches;
    Histogram request, queued, compute;
    void Add(const Data& other);
  };

  void RecordSuccess(const Job& job);
  void RecordFailure(const Job& job, FailureReason reason);
  // Of one run with so many rows.
  void RecordRun(int64_t rows, std::chrono::nanoseconds input, std::chrono::nanoseconds infer,
                 std::chrono::nanoseconds output);
  Data Snapshot() const;

 private:
  // Of the threads that share it: those of the connections do not wait for each other.
  struct alignas(64) Part {
    mutable std::mutex mutex;
    Data data;
  };
  Part& Mine();

  std::array<Part, 8> parts_;
};

Json StatisticsJson(const ModelStats::Data& data);  // without name and version

}  // namespace ferry::server
