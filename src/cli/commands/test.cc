#include <optional>

#include "base/atomic_file.h"
#include "base/directory.h"
#include "base/error.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "engine/provider.h"
#include "measure/test_case.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {
    {.name = "DIR",
     .help = "a case (a folder with model.onnx), or a folder of cases",
     .completes = Completes::kDirectory,
     .repeated = true},
};

constexpr Option kOptions[] = {
    {.name = "list",
     .value = "FILE",
     .help = "write a line per case to FILE: 'passed NAME' or 'failed NAME: why'",
     .completes = Completes::kFile},
    {.name = "tolerances",
     .value = "FILE.json",
     .help = "rtol and atol by case name; tolerances.json in DIR is taken by itself",
     .completes = Completes::kFile},
    kTimeLimitOption,
    kMemoryLimitOption,
    kMaxIterationsOption,
    kProviderOption,
};

constexpr Example kExamples[] = {
    {"ferry test onnx-node", "every case in a folder"},
    {"ferry test onnx-node/test_relu onnx-node/test_gelu_default_1", "two cases"},
    {"ferry test cases --list results.txt", "keep a line per case"},
    {"ferry test onnx-node --provider cuda,cpu", "on an NVIDIA GPU"},
};

struct Counts {
  int64_t passed = 0, failed = 0;
};

void Report(const TestCase& test_case, const CaseResult& result, bool json, AtomicFile* list, Json& failures) {
  std::string name = Printable(test_case.name);
  std::string line =
      result.passed ? Cat("passed ", name, "\n") : Cat("failed ", name, ": ", Printable(result.reason, 2000), "\n");
  if (list) list->Write(line);
  if (result.passed) return;
  if (!json) Print(line);
  failures.Add(Json().Set("name", test_case.name).Set("reason", result.reason));
}

int Run(const Arguments& arguments) {
  CaseTolerances tolerances;
  std::vector<TestCase> cases;
  for (const std::string& folder : arguments.positions()) {
    std::vector<TestCase> found = FindTestCases(folder);
    cases.insert(cases.end(), found.begin(), found.end());
    for (const std::string& place : {JoinPath(folder, "tolerances.json"), JoinPath(folder, "../tolerances.json")})
      if (!arguments.Has("tolerances") && IsFile(place)) tolerances.Load(place);
  }
  if (arguments.Has("tolerances")) tolerances.Load(arguments.Get("tolerances"));
  std::optional<AtomicFile> list;
  if (arguments.Has("list")) list.emplace(arguments.Get("list"));

  const Limits limits = LimitsFrom(arguments);
  SessionOptions options;
  options.provider = arguments.Get("provider", options.provider);
  for (const Provider* provider : FindProviders(options.provider))
    provider->Open({});  // or say once that it can't be had
  Counts counts;
  Json failures = Json::Array{};
  {
    Progress progress("case", static_cast<int64_t>(cases.size()));
    for (const TestCase& test_case : cases) {
      progress.At(counts.passed + counts.failed + 1, test_case.name);
      const RunScope scope("the case", limits, nullptr, RunScope::Memory::kNotCounted);
      CaseResult result = RunTestCase(test_case, tolerances.For(test_case.name), options);
      ++(result.passed ? counts.passed : counts.failed);
      Report(test_case, result, arguments.json(), list ? &*list : nullptr, failures);
    }
  }
  if (list) list->Commit();
  if (arguments.json())
    PrintJson(Json().Set("passed", counts.passed).Set("failed", counts.failed).Set("failures", std::move(failures)));
  else
    Print(Cat(counts.passed, " passed, ", counts.failed, " failed\n"));
  return counts.failed == 0 ? kGood : kAnswerIsNo;
}

}  // namespace

extern const Command command_test;
constinit const Command command_test = {
    .name = "test",
    .group = Group::kRun,
    .summary = "Run ONNX-style test cases and count those that pass",
    .details =
        "A case is a folder with model.onnx and test_data_set_*/input_K.pb and output_K.pb, as ONNX keeps its own. "
        "Types and shapes must be equal, floats within the case's tolerance (usually rtol 1e-3, atol 1e-7), all "
        "else exactly equal; outputs drawn by chance are checked for type, shape and range.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
