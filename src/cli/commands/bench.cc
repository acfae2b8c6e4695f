#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "measure/benchmark.h"
#include "measure/provider_table.h"
#include "ops/infer_graph.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {kModelPosition};

constexpr Option kOptions[] = {
    {.name = "inputs",
     .value = "FILE.npz",
     .help = "inputs by name, or in0, in1 … by position, instead of random ones",
     .completes = Completes::kFile},
    kDimOption,
    kThreadsOption,
    {.name = "provider",
     .value = "P",
     .help = "what runs the model; cuda,cpu: the CPU takes what is left; all: every one in every precision, as a table",
     .words = "cpu cuda cuda,cpu all"},
    kCacheOption,
    kExactOption,
    kTuneOption,
    kPrecisionOption,
    kTimeLimitOption,
    kMemoryLimitOption,
    kDeviceMemoryOption,
    kMaxIterationsOption,
    kMaxInflatedOption,
    {.name = "iters", .value = "N", .help = "runs that are measured (usually as many as fit in 3 seconds, 10 to 1000)"},
    {.name = "warmup", .value = "N", .help = "runs before them, after the first (usually 3)"},
    {.name = "seed", .value = "N", .help = "seed of the random inputs (usually 1)"},
    {.name = "profile",
     .value = "FILE.json",
     .help = "write what each step of one more run took, for ui.perfetto.dev and chrome://tracing",
     .completes = Completes::kFile},
    {.name = "on-device",
     .help =
         "inputs lie on the first provider's device and results stay there: copies to and from it are not measured"},
    {.name = "on-request",
     .help = "run only when asked: each line of standard input is a number of runs, answered by a line of JSON with "
             "their times; for measuring in turns with another program"},
};

constexpr Example kExamples[] = {
    {"ferry bench model.onnx", "how fast is it here?"},
    {"ferry bench bert.onnx --dim batch=8 --dim seq=128 --threads 2", "with these sizes, on two threads"},
    {"ferry bench model.onnx --provider all", "every provider and precision: time, memory, distance from float64"},
    {"ferry bench model.onnx --profile trace.json", "which nodes take the time? (open the file in ui.perfetto.dev)"},
};

Json ToJson(const BenchmarkResult& result) {
  Json json;
  json.Set("load_ms", result.load_ms).Set("first_ms", result.first_ms);
  json.Set("median_ms", result.median_ms).Set("p90_ms", result.p90_ms).Set("p99_ms", result.p99_ms);
  json.Set("peak_rss_kb", result.peak_rss_kb).Set("iters", result.iterations).Set("threads", result.threads);
  if (result.error) json.Set("max_abs_error", result.error->max_abs).Set("max_rel_error", result.error->relative);
  Json inputs = Json::Array{};
  for (const NamedValue& input : result.inputs)
    inputs.Add(Json().Set("name", input.first).Set("type", ToText(TypeOf(input.second))));
  return json.Set("inputs", std::move(inputs));
}

std::string ToLines(const BenchmarkResult& result) {
  Columns columns({}, "");
  for (const NamedValue& input : result.inputs)
    columns.Add({"input", Cat(Printable(input.first), "  ", TypeOf(input.second))});
  columns.Add({"load", HumanTime(result.load_ms)});
  columns.Add({"first run", HumanTime(result.first_ms)});
  columns.Add({"median", Cat(HumanTime(result.median_ms), "  (", Plural(result.iterations, "run"), ", ",
                             Plural(result.threads, "thread"), ")")});
  columns.Add({"p90", HumanTime(result.p90_ms)});
  columns.Add({"p99", HumanTime(result.p99_ms)});
  columns.Add({"peak memory", HumanBytes(static_cast<double>(result.peak_rss_kb) * 1024)});
  if (result.error)
    columns.Add({"error", Cat(HumanNumber(result.error->relative), " of the largest output, ",
                              HumanNumber(result.error->max_abs), " at most, against float32 on these inputs")});
  return columns.Text();
}

std::string ErrorText(const ProviderRow& row, const ProviderTable& table) {
  if (!table.reference_problem.empty()) return "?";
  return Cat(HumanNumber(row.relative_error), " (", HumanNumber(row.max_abs_error), ")");
}

std::string ToLines(const ProviderTable& table) {
  Columns inputs({}, ""), columns({}, "");
  for (const NamedValue& input : table.inputs)
    inputs.Add({"input", Cat(Printable(input.first), "  ", TypeOf(input.second))});
  columns.Add(
      {"provider", "precision", "first run", "median", "p90", "runs/s", "weights and arena", "error (largest)"});
  std::string problems;
  for (const ProviderRow& row : table.rows) {
    if (!row.problem.empty()) {
      columns.Add({row.provider, row.precision, "-"});
      problems += Cat(row.provider, " ", row.precision, ": ", Printable(row.problem, 400), "\n");
      continue;
    }
    columns.Add({row.provider, row.precision, HumanTime(row.first_ms), HumanTime(row.median_ms), HumanTime(row.p90_ms),
                 HumanNumber(row.runs_per_second), HumanBytes(static_cast<double>(row.bytes)), ErrorText(row, table)});
  }
  if (!table.reference_problem.empty())
    problems += Cat("nothing is held against float64: ", Printable(table.reference_problem, 400), "\n");
  return Cat(inputs.Text(), "\n", columns.Text(),
             "\nerror: the largest difference from float64, as a share of the largest output (and as it is)\n",
             problems);
}

Json ToJson(const ProviderTable& table) {
  Json rows = Json::Array{};
  for (const ProviderRow& row : table.rows) {
    Json json = Json().Set("provider", row.provider).Set("precision", row.precision);
    if (!row.problem.empty()) {
      rows.Add(json.Set("problem", row.problem));
      continue;
    }
    json.Set("first_ms", row.first_ms).Set("median_ms", row.median_ms).Set("p90_ms", row.p90_ms);
    json.Set("runs_per_second", row.runs_per_second).Set("bytes", static_cast<int64_t>(row.bytes));
    if (table.reference_problem.empty())
      json.Set("max_abs_error", row.max_abs_error).Set("max_rel_error", row.relative_error);
    rows.Add(std::move(json));
  }
  return Json().Set("rows", std::move(rows)).Set("reference_problem", table.reference_problem);
}

int RunTable(const Arguments& arguments, const BenchmarkOptions& options) {
  if (arguments.Has("precision") || arguments.Has("on-request") || arguments.Has("profile") ||
      arguments.Has("on-device"))
    throw UsageError{
        "--provider all takes every precision by itself, and no --precision, --profile, --on-device or "
        "--on-request"};
  ProviderTable table;
  {
    Progress progress("provider");
    int64_t done = 0;
    table = MeasureProviders(arguments.positions()[0], options,
                             [&](const std::string& name) { progress.At(++done, name); });
  }
  if (arguments.json())
    PrintJson(ToJson(table));
  else
    Print(ToLines(table));
  return kGood;
}

constexpr int64_t kMostRuns = 1000000000;

void PrintLine(const Json& json) {
  Print(json.Dump(-1) + "\n");
  std::fflush(stdout);
}

int RunOnRequest(const std::string& path, const BenchmarkOptions& options) {
  Measurement measurement(path, options);
  PrintLine(Json().Set("load_ms", measurement.load_ms()).Set("first_ms", measurement.first_ms()));
  char line[64];
  while (std::fgets(line, sizeof line, stdin)) {
    line[std::strcspn(line, "\n")] = 0;
    char* end = nullptr;
    long long count = std::strtoll(line, &end, 10);
    Require(*line && !*end && count >= 0 && count <= kMostRuns,
            "a line of standard input must be a number of runs, got '", Printable(line), "'");
    Json times = Json::Array{};
    for (int64_t i = 0; i < count; ++i) times.Add(measurement.RunOnce());
    PrintLine(Json().Set("times_ms", std::move(times)).Set("peak_rss_kb", Measurement::PeakRssKb()));
  }
  return kGood;
}

int Run(const Arguments& arguments) {
  Limits reading;  // of the whole command
  reading.inflated_bytes = LimitsFrom(arguments).inflated_bytes;
  const RunScope scope("the measurement", reading);
  BenchmarkOptions options;
  options.session = SessionOptionsFrom(arguments);
  options.inputs.dimensions = DimensionsFrom(arguments);
  options.inputs.seed = static_cast<uint64_t>(arguments.Int("seed", 1, 0, INT64_MAX));
  options.iterations = arguments.Int("iters", 0, 1, kMostRuns);
  options.warmup = arguments.Int("warmup", 3, 0, kMostRuns);
  options.inputs_file = arguments.Get("inputs");
  options.on_device = arguments.Has("on-device");
  options.profile_file = arguments.Get("profile");
  if (options.session.provider == "all") return RunTable(arguments, options);
  if (arguments.Has("on-request")) return RunOnRequest(arguments.positions()[0], options);
  BenchmarkResult result;
  {
    Progress progress("run");
    options.on_run = [&](int64_t done) { progress.At(done + 1); };
    result = Benchmark(arguments.positions()[0], options);
  }
  if (arguments.json())
    PrintJson(ToJson(result));
  else
    Print(ToLines(result));
  return kGood;
}

}  // namespace

extern const Command command_bench;
constinit const Command command_bench = {
    .name = "bench",
    .group = Group::kRun,
    .summary = "Measure how fast a model loads and runs",
    .details =
        "Inputs are random, from a seed; integers that look something up stay within its size. Named dimensions are "
        "1 unless --dim says otherwise.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
