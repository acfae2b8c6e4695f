// How fast a model runs and how much memory the process took for it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "measure/random_input.h"

namespace ferry {

struct BenchmarkOptions {
  SessionOptions session;
  RandomInputOptions inputs;
  std::string inputs_file;  // .npz: used instead of random inputs
  int64_t warmup = 3;
  int64_t iterations = 0;               // 0: as many as fit in a few seconds
  std::function<void(int64_t)> on_run;  // told before each run how many are done
  bool on_device = false;               // inputs lie in the first provider's memory, and results stay there
  bool holds_against_float32 = true;    // where another precision is asked for
  std::string profile_file;             // when set: one more run, after those that are measured, is written here
};

// How far results are from those of float32 products, on the inputs of the measurement.
struct PrecisionError {
  double max_abs = 0;
  double relative = 0;  // the largest |difference| / largest |value| of all outputs
};

struct BenchmarkResult {
  double load_ms = 0;   // file to session
  double first_ms = 0;  // the first run, which also builds the program
  double median_ms = 0, p90_ms = 0, p99_ms = 0;
  int64_t peak_rss_kb = 0;
  int64_t iterations = 0;
  int threads = 0;
  std::vector<NamedValue> inputs;
  std::optional<PrecisionError> error;  // where products are not float32
};

// A model that is loaded and has run once; the caller says when it runs again.
class Measurement {
 public:
  Measurement(const std::string& path, const BenchmarkOptions& options);

  double RunOnce();  // milliseconds
  double load_ms() const { return load_ms_; }
  double first_ms() const { return first_ms_; }
  const Session& session() const { return *session_; }
  const std::vector<NamedValue>& inputs() const { return inputs_; }
  static int64_t PeakRssKb();

 private:
  double load_ms_ = 0, first_ms_ = 0;
  std::shared_ptr<Session> session_;
  std::vector<NamedValue> inputs_;
  MemorySpace* space_ = nullptr;  // where inputs and results lie; null: on the host
  std::vector<Tensor> results_;   // there, used again by each run
};

BenchmarkResult Benchmark(const std::string& path, const BenchmarkOptions& options);

}  // namespace ferry
