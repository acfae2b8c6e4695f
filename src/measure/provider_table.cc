#include "measure/provider_table.h"

#include <algorithm>
#include <cmath>

#include "engine/provider.h"
#include "measure/compare/side.h"
#include "measure/elements.h"
#include "measure/plan_summary.h"
#include "onnx/reader.h"

namespace ferry {
namespace {

constexpr const char* kCpuPrecisions[] = {"float32", "bf16"};
constexpr const char* kDevicePrecisions[] = {"float32", "tf32", "fp16", "bf16"};

std::span<const char* const> PrecisionsOf(const Provider& provider) {
  if (&provider == &CpuProvider()) return kCpuPrecisions;
  return kDevicePrecisions;
}

// What the plan places: weights and the arena, in the memory where most of the work is done.
size_t BytesOf(const Model& model, const RandomInputOptions& inputs, const SessionOptions& session) {
  const PlanSummary plan = SummarizePlan(model, inputs.dimensions, session);
  size_t bytes = 0;
  for (const auto* parts : {&plan.arena_bytes, &plan.weight_bytes})
    for (const auto& [space, count] : *parts) bytes += count;
  return bytes;
}

void HoldAgainst(const std::vector<Value>& expected, const std::vector<Value>& actual, ProviderRow& row) {
  for (size_t i = 0; i < expected.size() && i < actual.size(); ++i) {
    if (!expected[i].is_tensor() || !IsFloating(expected[i].tensor().dtype())) continue;
    const std::vector<double> right = ToDoubles(expected[i].tensor()), made = ToDoubles(actual[i].tensor());
    if (right.size() != made.size()) continue;
    double off = 0, largest = 0;
    for (size_t j = 0; j < right.size(); ++j) {
      if (std::isfinite(right[j])) largest = std::max(largest, std::abs(right[j]));
      const double difference = std::abs(right[j] - made[j]);
      if (right[j] == made[j] || (right[j] != right[j] && made[j] != made[j])) continue;
      off = difference == difference ? std::max(off, difference) : INFINITY;
    }
    row.max_abs_error = std::max(row.max_abs_error, off);
    row.relative_error = std::max(row.relative_error, largest > 0 ? off / largest : off);
  }
}

}  // namespace

ProviderTable MeasureProviders(const std::string& path, const BenchmarkOptions& options,
                               const std::function<void(const std::string&)>& told) {
  ProviderTable table;
  std::vector<Value> expected;
  const Model model = ReadModel(path);
  for (const Provider* provider : BuiltInProviders())
    for (const char* precision : PrecisionsOf(*provider)) {
      ProviderRow& row = table.rows.emplace_back();
      row.provider = provider->name();
      row.precision = precision;
      if (told) told(Cat(row.provider, " ", row.precision));
      BenchmarkOptions own = options;
      own.session.provider = provider == &CpuProvider() ? "cpu" : Cat(provider->name(), ",cpu");
      own.session.precision = Precision::kFloat32;
      try {
        own.session.precision = PrecisionNamed(precision);
        own.holds_against_float32 = false;
        const BenchmarkResult result = Benchmark(path, own);
        row.first_ms = result.first_ms, row.median_ms = result.median_ms, row.p90_ms = result.p90_ms;
        row.runs_per_second = result.median_ms > 0 ? 1000 / result.median_ms : 0;
        if (table.inputs.empty()) {
          table.inputs = result.inputs;
          try {
            const Side side = Side::Open(path, {"float64", true, {.threads = options.session.threads}});
            expected = side.Run(table.inputs);
          } catch (const Error& error) {
            table.reference_problem = error.message();
          }
        }
        row.bytes = BytesOf(model, own.inputs, own.session);
        HoldAgainst(expected, Session::Open(path, own.session)->Run(table.inputs), row);
      } catch (const Error& error) {
        row.problem = error.message();
        if (provider != &CpuProvider() && error.code() == ErrorCode::kUnsupported) break;  // all precisions alike
      }
    }
  return table;
}

}  // namespace ferry
