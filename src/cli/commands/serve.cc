#include <cstdio>

#include "base/exec_program.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {
    {"MODEL", "an .onnx file, NAME=FILE, or a folder of one model", Completes::kModel, true, true},
};

constexpr Option kOptions[] = {
    {.name = "model-repository",
     .value = "DIR",
     .help = "a folder of models: NAME/VERSION/model.onnx, with or without NAME/config.pbtxt",
     .completes = Completes::kDirectory,
     .repeated = true},
    {.name = "http-port", .value = "PORT", .help = "port of HTTP (8000)"},
    {.name = "grpc-port", .value = "PORT", .help = "port of gRPC (8001)"},
    {.name = "metrics-port", .value = "PORT", .help = "port of /metrics (8002)"},
    {.name = "model-control-mode",
     .value = "MODE",
     .help = "none, poll or explicit: whether models are loaded and unloaded while it runs",
     .words = "none poll explicit"},
};

constexpr Example kExamples[] = {
    {"ferry serve model.onnx", "http://localhost:8000/v2/models/model/infer answers; a page at http://localhost:8000/"},
    {"ferry serve --model-repository models --model-control-mode poll",
     "a folder as Triton has it, watched for changes"},
};

// ferry-server is a program of its own, with its own options.
int HandOn(std::span<const char* const> words) {
  const std::string path = FindProgram("ferry-server");
  if (path.empty()) {
    const bool wants_help =
        !words.empty() && (std::string_view(words[0]) == "--help" || std::string_view(words[0]) == "-h");
    if (wants_help) Print(HelpFor(*FindCommand("serve")));
    if (wants_help) return kGood;
    std::fputs(
        "ferry serve: ferry-server is not installed beside this program or on PATH\n"
        "  build it: scripts/setup server && scripts/build server\n",
        stderr);
    return kUnusable;
  }
  const std::string why = ExecProgram(path, words);
  std::fputs(Cat("ferry serve: ", path, " cannot be started: ", why, "\n").c_str(), stderr);
  return kUnusable;
}

int Run(const Arguments&) { return kUnusable; }

}  // namespace

extern const Command command_serve;
constinit const Command command_serve = {
    .name = "serve",
    .group = Group::kRun,
    .summary = "Serve models over HTTP and gRPC (Open Inference Protocol, KServe, Triton)",
    .details =
        "Starts ferry-server, a program of its own (scripts/build server), with all that follows on the command line; "
        "'ferry-server --help' lists every option, docs/server.md explains them.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
    .hand_on = HandOn,
};

}  // namespace ferry::cli
