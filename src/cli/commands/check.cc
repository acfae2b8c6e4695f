#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "engine/check_inference.h"
#include "onnx/checker/problem_report.h"
#include "onnx/reader.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {kModelPosition};

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

// A file that breaks the format itself is one more way of not being valid.
std::vector<Problem> Check(const std::string& path, bool with_inference) {
  try {
    Model model = ReadModel(path);
    return with_inference ? CheckFully(model) : CheckModel(model);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotFound || error.code() == ErrorCode::kIo) throw;
    Problem problem;
    problem.rule = "file.unreadable";
    problem.message = error.message();
    bool is_foreign = error.message().find("not an ONNX model") != std::string::npos;
    problem.remedy = is_foreign ? "give the model's .onnx file" : "export or copy the model again";
    return {std::move(problem)};
  }
}

int Run(const Arguments& arguments) {
  const std::string& path = arguments.positions()[0];
  std::vector<Problem> problems = Check(path, !arguments.Has("no-inference"));
  bool valid = !HasErrors(problems);
  if (arguments.Has("sarif")) {
    PrintJson(ToSarif(problems, AllRules(), path, kVersion));
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
        "1: not valid; 3: there is no such file.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
