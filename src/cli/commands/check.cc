#include <algorithm>

#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "doctor/check_inference.h"
#include "doctor/problem_report.h"
#include "onnx/reader.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {
    {.name = "MODEL", .help = "an .onnx file", .completes = Completes::kModel},
};

constexpr Option kOptions[] = {
    {.name = "sarif", .help = "print SARIF 2.1.0, as code-scanning pages of CI systems read it"},
    {.name = "no-inference", .help = "look at structure and schemas only, not at types and shapes"},
    {.name = "strict", .help = "exit with status 1 for warnings too"},
};

constexpr Example kExamples[] = {
    {"ferry check model.onnx", "is it valid, and if not, why and where?"},
    {"ferry check model.onnx --json", "the same for a script"},
    {"ferry check model.onnx --sarif > check.sarif", "the same for a code-scanning page"},
};

std::string Listing(const std::vector<Problem>& problems) {
  std::string out;
  for (const Problem& problem : problems) out += Cat(ToText(problem), "\n    ", problem.remedy, "\n");
  return out;
}

std::string Verdict(const std::string& path, const std::vector<Problem>& problems) {
  auto count = [&](Severity severity) {
    return std::count_if(problems.begin(), problems.end(), [&](const Problem& p) { return p.severity == severity; });
  };
  int64_t errors = count(Severity::kError), warnings = count(Severity::kWarning);
  std::string counts = warnings ? Cat(", ", Plural(warnings, "warning")) : "";
  if (errors) return Cat(Printable(path), ": not valid: ", Plural(errors, "error"), counts, "\n");
  return Cat(Printable(path), ": valid", counts, "\n");
}

int Run(const Arguments& arguments) {
  const std::string& path = arguments.positions()[0];
  Model model = ReadModel(path);
  std::vector<Problem> problems = arguments.Has("no-inference") ? CheckModel(model) : CheckFully(model);
  bool valid = !HasErrors(problems);
  if (arguments.Has("sarif")) {
    PrintJson(ToSarif(problems, AllRules(), path, FERRY_VERSION));
  } else if (arguments.json()) {
    Json list = Json::Array{};
    for (const Problem& problem : problems) list.Add(ToJson(problem));
    PrintJson(Json().Set("model", path).Set("valid", valid).Set("problems", std::move(list)));
  } else {
    Print(Listing(problems));
    Print(Verdict(path, problems));
  }
  bool warned =
      std::any_of(problems.begin(), problems.end(), [](const Problem& p) { return p.severity == Severity::kWarning; });
  return valid && !(arguments.Has("strict") && warned) ? kGood : kAnswerIsNo;
}

}  // namespace

extern const Command command_check;
constinit const Command command_check = {
    .name = "check",
    .group = Group::kUnderstand,
    .summary = "Say whether a model is valid by the ONNX standard, and every reason why not",
    .details =
        "Checks names, order, scopes, operators, types, attributes, tensors, functions and training information of IR "
        "versions 3 to 14 and all opsets, then infers types and shapes and holds them against what the model declares. "
        "Everything that is wrong is listed in one run, with the node, the rule and the remedy. Exit status 0: valid; "
        "1: not valid; 3: the file can't be read as a model.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
