#include "doctor/doctor.h"

#include <algorithm>

#include "base/version.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "doctor/lint.h"
#include "doctor/targets.h"
#include "onnx/checker/problem_report.h"
#include "onnx/reader.h"
#include "onnx/writer.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {
    {.name = "MODEL", .help = "an .onnx file", .completes = Completes::kModel, .optional = true},
    {.name = "FILE.npz", .help = "more recordings, as after --data", .optional = true, .repeated = true},
};

constexpr Option kOptions[] = {
    {.name = "fix",
     .value = "OUT.onnx",
     .help = "write a mended model, each change proved by running both",
     .completes = Completes::kModel},
    {.name = "data",
     .value = "FILE.npz",
     .help = "inputs to look at numbers with, perhaps with recorded outputs (otherwise inputs are made up)",
     .completes = Completes::kFile,
     .repeated = true},
    {.name = "target",
     .value = "RUNTIME",
     .help = "what the model is to run on",
     .repeated = true,
     .words = "onnxruntime-cpu onnxruntime-cuda tensorrt coreml litert"},
    {.name = "lint", .value = "NAME", .help = "apply this lint only (may be repeated)", .repeated = true},
    {.name = "list", .help = "list the lints and what they look for"},
    kTimeLimitOption,
    kMemoryLimitOption,
    kMaxIterationsOption,
    kMaxInflatedOption,
    {.name = "sarif", .help = "print SARIF 2.1.0, as code-scanning pages of CI systems read it"},
};

constexpr Example kExamples[] = {
    {"ferry doctor model.onnx", "what will hurt in deployment?"},
    {"ferry doctor model.onnx --data io_*.npz --target tensorrt", "with real data, for one runtime"},
    {"ferry doctor model.onnx --fix mended.onnx", "mend what can be mended, and prove it"},
    {"ferry doctor model.onnx --lint training-mode", "one question only"},
};

std::string CountsText(const std::vector<Finding>& findings) {
  std::string text;
  for (Severity severity : {Severity::kError, Severity::kWarning, Severity::kNote}) {
    int64_t count = std::count_if(findings.begin(), findings.end(),
                                  [&](const Finding& finding) { return finding.severity == severity; });
    if (count) text += Cat(text.empty() ? "" : ", ", Plural(count, Name(severity)));
  }
  return text.empty() ? "nothing found" : text;
}

// What findings of one cause have in common: all but names and numbers.
std::string CauseOf(const Finding& finding) {
  std::string cause = Cat(finding.lint, "\n", Name(finding.severity), "\n", finding.place.op_type, "\n");
  bool quoted = false;
  for (char c : finding.message) {
    if (c == '\'') quoted = !quoted;
    bool of_number = (c >= '0' && c <= '9') || c == '.';
    if (!quoted && !of_number) cause += c;
  }
  return Cat(cause, "\n", finding.remedy);
}

std::string ShortPlace(const Place& place) {
  return Cat("'", Printable(place.node.empty() ? place.value : place.node, 60), "'");
}

// The first finding of each cause, with how many there are more.
std::string Listing(const std::vector<Finding>& findings) {
  constexpr size_t kNamed = 3;
  std::vector<std::pair<std::string, std::vector<const Finding*>>> causes;
  for (const Finding& finding : findings) {
    std::string cause = CauseOf(finding);
    auto known = std::find_if(causes.begin(), causes.end(), [&](const auto& entry) { return entry.first == cause; });
    if (known == causes.end()) known = causes.insert(causes.end(), {std::move(cause), {}});
    known->second.push_back(&finding);
  }
  std::string text;
  for (const auto& [cause, members] : causes) {
    text += Cat(ToText(*members[0]), "\n");
    std::vector<std::string> others;
    for (size_t i = 1; i < members.size() && i <= kNamed; ++i) others.push_back(ShortPlace(members[i]->place));
    if (!others.empty())
      text += Cat("    and ", members.size() - 1, " more: ", Join(others, ", "),
                  members.size() - 1 > kNamed ? " …\n" : "\n");
    text += Cat("    ", members[0]->remedy, "\n");
  }
  return text;
}

std::string Listing(const std::vector<Mending>& mendings) {
  constexpr size_t kMostLines = 12;
  std::string text;
  for (const Mending& mending : mendings) {
    text += Cat(mending.applied ? "mended" : "not mended", ": ", mending.lint, "\n");
    size_t lines = 0;
    if (mending.applied)
      for (const std::string& change : mending.changes)
        if (++lines <= kMostLines) text += Cat("    ", change, "\n");
    if (lines > kMostLines) text += Cat("    … and ", lines - kMostLines, " more\n");
    for (const std::string& refusal : mending.refusals) text += Cat("    ", refusal, "\n");
    for (const ProofStep& step : mending.proof)
      text += Cat("    proof: ", step.what, ": ", step.holds ? "yes" : "NO", ", largest difference ",
                  HumanNumber(step.max_abs), step.detail.empty() ? "" : Cat(" (", step.detail, ")"), "\n");
  }
  return text;
}

int PrintLints(bool json) {
  if (json) {
    Json list = Json::Array{};
    for (const Lint* lint : AllLints())
      list.Add(Json()
                   .Set("name", lint->name)
                   .Set("severity", Name(lint->severity))
                   .Set("meaning", lint->meaning)
                   .Set("fixable", lint->fix != nullptr));
    PrintJson(Json().Set("lints", std::move(list)));
    return kGood;
  }
  Columns columns({}, "");
  for (const Lint* lint : AllLints())
    columns.Add({std::string(lint->name), lint->fix ? "fix" : "", std::string(lint->meaning)});
  Print(columns.Text());
  return kGood;
}

void PrintSarif(const std::vector<Finding>& findings, const std::string& path) {
  std::vector<Problem> problems;
  for (const Finding& finding : findings) problems.push_back(ToProblem(finding));
  std::vector<RuleInfo> rules;
  for (const Lint* lint : AllLints()) rules.push_back({lint->name, lint->meaning, lint->remedy, lint->severity});
  PrintJson(ToSarif(problems, rules, path, kVersion));
}

Json ListOf(const std::vector<Finding>& findings) {
  Json list = Json::Array{};
  for (const Finding& finding : findings) list.Add(ToJson(finding));
  return list;
}

int Run(const Arguments& arguments) {
  if (arguments.Has("list")) return PrintLints(arguments.json());
  if (arguments.positions().empty()) throw UsageError{"a MODEL is needed"};
  DoctorOptions options;
  options.path = arguments.positions()[0];
  options.data = arguments.All("data");
  if (arguments.positions().size() > 1 && options.data.empty()) throw UsageError{"recordings are given after --data"};
  options.data.insert(options.data.end(), arguments.positions().begin() + 1, arguments.positions().end());
  options.targets = arguments.All("target");
  options.only = arguments.All("lint");
  const RunScope scope("the examination", LimitsFrom(arguments), nullptr, RunScope::Memory::kNotCounted);
  Model model = ReadModel(options.path);
  std::vector<Finding> findings = Examine(model, options), left = findings;
  MendedModel mended;
  std::string out = arguments.Get("fix");
  if (!out.empty()) {
    mended = Mend(model, options);
    WriteModel(mended.model, out);
    left = Examine(mended.model, options);
  }
  if (arguments.Has("sarif")) {
    PrintSarif(findings, options.path);
  } else if (arguments.json()) {
    Json json = Json().Set("model", options.path).Set("good", !HasFaults(findings)).Set("findings", ListOf(findings));
    if (!out.empty()) {
      Json mendings = Json::Array{};
      for (const Mending& mending : mended.mendings) mendings.Add(ToJson(mending));
      json.Set("fixed", out).Set("mendings", std::move(mendings)).Set("left", ListOf(left));
    }
    PrintJson(json);
  } else {
    Print(Listing(findings));
    Print(Cat(Printable(options.path), ": ", CountsText(findings), "\n"));
    if (!out.empty()) Print(Cat("\n", Listing(mended.mendings), Printable(out), ": ", CountsText(left), "\n"));
  }
  return HasFaults(left) ? kAnswerIsNo : kGood;
}

}  // namespace

extern const Command command_doctor;
constinit const Command command_doctor = {
    .name = "doctor",
    .group = Group::kUnderstand,
    .summary = "Find what will hurt in deployment, and mend it",
    .details =
        "Looks for training mode, baked batch sizes, missing shapes, opsets and operators that a target does not take, "
        "numbers that overflow, waste, and texts that give away who made the model. Each finding has a severity, "
        "evidence and a remedy. With --fix, a mended model is written: every change is proved by running the original "
        "and the mended model, and left out with the reason where the proof fails or nothing can be compared. Findings "
        "of one cause are one line with a count; --json and --sarif have them all. Exit status 0: nothing at warning "
        "or above (with --fix: nothing is left); 1: something is; 3: the model or data cannot be used.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
