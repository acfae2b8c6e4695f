#include "measure/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/process.h"
#include "engine/profile.h"
#include "engine/provider.h"
#include "engine/runtime.h"
#include "measure/difference.h"
#include "measure/elements.h"
#include "measure/recording.h"
#include "onnx/schema.h"
#include "ops/operator.h"

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

double Largest(const Value& value) {
  double largest = 0;
  if (value.is_tensor() && IsFloating(value.tensor().dtype()))
    for (double x : ToDoubles(value.tensor()))
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return largest;
}

PrecisionError ErrorOf(const Measurement& measurement, const std::string& path, SessionOptions options) {
  std::vector<Value> actual = measurement.session().Run(measurement.inputs());
  options.precision = Precision::kFloat32;
  std::vector<Value> expected = Session::Open(path, options)->Run(measurement.inputs());
  PrecisionError error;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double off = Compare(actual[i], expected[i], {}).max_abs, largest = Largest(expected[i]);
    error.max_abs = std::max(error.max_abs, off);
    if (off > 0) error.relative = std::max(error.relative, largest > 0 ? off / largest : off);
  }
  return error;
}

void RequireOperators(const Model& model, const std::vector<Node>& nodes) {
  for (const Node& node : nodes) {
    std::span<const Schema> versions = SchemaVersions(node.domain, node.op_type);
    bool is_upgraded = !versions.empty() && versions.back().deprecated;
    if (!FindOperator(node.domain, node.op_type) && !is_upgraded &&
        !model.FindFunction(node.domain, node.op_type, node.overload))
      Fail(ErrorCode::kUnsupported, Describe(node), ": Ferry has no operator '", Printable(node.op_type),
           "' in domain '", Printable(node.domain.empty() ? "ai.onnx" : node.domain), "'");
    ForEachSubgraph(node, [&](const Graph& body) { RequireOperators(model, body.nodes); });
  }
}

// Before gigabytes of inputs are made for a model that cannot run.
void RequireMeasurable(const Model& model) {
  if (model.graph.outputs.empty())
    Fail(ErrorCode::kInvalidModel, "the model has no output, so there is nothing to measure");
  RequireOperators(model, model.graph.nodes);
}

}  // namespace

Measurement::Measurement(const std::string& path, const BenchmarkOptions& options) {
  load_ms_ = Milliseconds([&] { session_ = Session::Open(path, options.session); });
  RequireMeasurable(session_->model());
  inputs_ = options.inputs_file.empty() ? MakeRandomInputs(*session_, options.inputs)
                                        : ReadRecording(options.inputs_file, *session_).inputs;
  if (options.on_device) {
    space_ = &ProvidersFor(options.session).front()->memory();
    for (NamedValue& input : inputs_)
      if (input.second.is_tensor()) input.second = input.second.tensor().In(*space_);
  }
  first_ms_ = RunOnce();
}

double Measurement::RunOnce() {
  RunOptions options;
  if (space_)
    options.place_result = [&](size_t i, DType type, const Shape& shape) {
      if (results_.size() <= i) results_.resize(i + 1);
      if (!results_[i].defined() || results_[i].dtype() != type || !(results_[i].shape() == shape))
        results_[i] = Tensor(type, shape, *space_);
      return results_[i];
    };
  return Milliseconds([&] { session_->Run(inputs_, {}, options); });
}

int64_t Measurement::PeakRssKb() { return PeakMemoryKilobytes(); }

BenchmarkResult Benchmark(const std::string& path, const BenchmarkOptions& options) {
  int64_t done = 0;
  auto tell = [&] {
    if (options.on_run) options.on_run(done);
    ++done;
  };
  tell();
  Measurement measurement(path, options);
  auto run = [&] {
    tell();
    return measurement.RunOnce();
  };
  for (int64_t i = 0; i < options.warmup; ++i) run();

  std::vector<double> times;
  double total = 0;
  auto wanted = [&](int64_t count) {
    if (options.iterations > 0) return count < options.iterations;
    return count < kFewest || (total < kEnoughMs && count < kMost);
  };
  while (wanted(static_cast<int64_t>(times.size()))) total += times.emplace_back(run());
  std::sort(times.begin(), times.end());
  if (!options.profile_file.empty()) {
    Profile profile;
    measurement.session().Run(measurement.inputs(), {}, {.profile = &profile});
    profile.Write(options.profile_file);
  }

  BenchmarkResult result;
  result.load_ms = measurement.load_ms();
  result.first_ms = measurement.first_ms();
  result.iterations = static_cast<int64_t>(times.size());
  result.median_ms = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
  result.p90_ms = Percentile(times, 0.90);
  result.p99_ms = Percentile(times, 0.99);
  result.peak_rss_kb = Measurement::PeakRssKb();
  result.threads = measurement.session().threads();
  result.inputs = measurement.inputs();
  if (options.session.precision != Precision::kFloat32 && options.holds_against_float32)
    result.error = ErrorOf(measurement, path, options.session);
  return result;
}

}  // namespace ferry
