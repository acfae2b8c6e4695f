#include "doctor/benchmark.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ferry {
namespace {

constexpr double kEnoughMs = 3000;
constexpr int64_t kFewest = 10, kMost = 1000;

template <class Body>
double Milliseconds(const Body& body) {
  auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// The smallest time that `share` of all runs stayed within.
double Percentile(const std::vector<double>& sorted, double share) {
  auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

BenchmarkResult Benchmark(const std::string& path, const BenchmarkOptions& options) {
  BenchmarkResult result;
  std::shared_ptr<Session> session;
  result.load_ms = Milliseconds([&] { session = Session::Open(path, options.session); });
  result.inputs = MakeRandomInputs(*session, options.inputs);
  result.threads = session->threads();
  int64_t done = 0;
  auto run = [&] {
    if (options.on_run) options.on_run(done);
    ++done;
    return Milliseconds([&] { session->Run(result.inputs); });
  };
  result.first_ms = run();
  for (int64_t i = 0; i < options.warmup; ++i) run();

  std::vector<double> times;
  double total = 0;
  auto wanted = [&](int64_t count) {
    if (options.iterations > 0) return count < options.iterations;
    return count < kFewest || (total < kEnoughMs && count < kMost);
  };
  while (wanted(static_cast<int64_t>(times.size()))) total += times.emplace_back(run());
  std::sort(times.begin(), times.end());
  result.iterations = static_cast<int64_t>(times.size());
  result.median_ms = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
  result.p90_ms = Percentile(times, 0.90);
  result.p99_ms = Percentile(times, 0.99);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  result.peak_rss_kb = usage.ru_maxrss;
  return result;
}

}  // namespace ferry
