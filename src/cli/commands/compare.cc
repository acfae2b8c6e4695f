#include <algorithm>

#include "base/directory.h"
#include "base/error.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "doctor/difference.h"
#include "doctor/recording.h"
#include "ops/infer_graph.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {
    kModelPosition,
    {.name = "FILE.npz", .help = "more recordings, as after --data", .optional = true, .repeated = true},
};

constexpr Option kOptions[] = {
    {.name = "data",
     .value = "FILE.npz",
     .help = "recorded inputs and outputs; keys are names, or in0, in1 … and out0, out1 …",
     .completes = Completes::kFile,
     .repeated = true,
     .required = true},
    {.name = "rtol", .value = "R", .help = "relative tolerance (usually 1e-3)"},
    {.name = "atol", .value = "A", .help = "absolute tolerance (usually 1e-5)"},
    kThreadsOption,
    kProviderOption,
};

constexpr Example kExamples[] = {
    {"ferry compare model.onnx --data io.npz", "does it answer as PyTorch did?"},
    {"ferry compare model.onnx --data io_*.npz --rtol 1e-4", "several recordings, a tighter tolerance"},
};

struct Compared {
  std::string name;
  Type type;
  Difference difference;
};

struct ComparedFile {
  std::string path;
  std::vector<Compared> outputs;
};

ComparedFile CompareFile(const Session& session, const std::string& path, Tolerance tolerance) {
  Recording recording = ReadRecording(path, session);
  if (recording.outputs.empty())
    Fail(ErrorCode::kInvalidArgument, path, ": there is no recorded output in it to compare with");
  std::vector<std::string> names;
  for (const NamedValue& output : recording.outputs) names.push_back(output.first);
  ComparedFile file{path, {}};
  try {
    std::vector<Value> results = session.Run(recording.inputs, names);
    for (size_t i = 0; i < results.size(); ++i) {
      Difference difference = Compare(results[i], recording.outputs[i].second, tolerance, TypeRule::kRecorded);
      file.outputs.push_back({names[i], TypeOf(results[i]), std::move(difference)});
    }
  } catch (Error& error) {
    throw error.At(path);
  }
  return file;
}

Json ToJson(const Compared& output) {
  const Difference& d = output.difference;
  Json json;
  json.Set("name", output.name).Set("type", ToText(output.type)).Set("within", d.within());
  json.Set("max_abs", d.max_abs).Set("mean_abs", d.mean_abs).Set("max_rel", d.max_rel).Set("mean_rel", d.mean_rel);
  json.Set("elements", d.elements).Set("outside", d.outside);
  if (!d.within()) json.Set("reason", d.Explain());
  return json;
}

Json ToJson(const ComparedFile& file) {
  Json outputs = Json::Array{};
  for (const Compared& output : file.outputs) outputs.Add(ToJson(output));
  return Json().Set("file", file.path).Set("outputs", std::move(outputs));
}

std::string Table(const std::vector<ComparedFile>& files) {
  Columns columns({}, "");
  columns.Add({"recording", "output", "type", "max abs", "mean abs", "max rel", "mean rel"});
  for (const ComparedFile& file : files)
    for (const Compared& output : file.outputs) {
      const Difference& d = output.difference;
      std::vector<std::string> cells{
          std::string(LastPart(file.path)), Printable(output.name, 40), ToText(output.type),    HumanNumber(d.max_abs),
          HumanNumber(d.mean_abs),          HumanNumber(d.max_rel),     HumanNumber(d.mean_rel)};
      if (!d.within()) cells.push_back(d.Explain());
      columns.Add(std::move(cells));
    }
  return columns.Text();
}

int Run(const Arguments& arguments) {
  Tolerance tolerance{arguments.Number("rtol", 1e-3), arguments.Number("atol", 1e-5)};
  std::vector<std::string> paths = arguments.All("data");
  paths.insert(paths.end(), arguments.positions().begin() + 1, arguments.positions().end());

  std::shared_ptr<Session> session = Session::Open(arguments.positions()[0], SessionOptionsFrom(arguments));
  std::vector<ComparedFile> files;
  {
    Progress progress("recording", static_cast<int64_t>(paths.size()));
    for (const std::string& path : paths) {
      progress.At(static_cast<int64_t>(files.size()) + 1, path);
      files.push_back(CompareFile(*session, path, tolerance));
    }
  }
  bool within = true;
  double max_abs = 0;
  for (const ComparedFile& file : files)
    for (const Compared& output : file.outputs) {
      within = within && output.difference.within();
      max_abs = std::max(max_abs, output.difference.max_abs);
    }
  if (arguments.json()) {
    Json json;
    json.Set("within", within).Set("rtol", tolerance.rtol).Set("atol", tolerance.atol).Set("max_abs", max_abs);
    Json list = Json::Array{};
    for (const ComparedFile& file : files) list.Add(ToJson(file));
    PrintJson(json.Set("files", std::move(list)));
  } else {
    Print(Cat(Table(files), "largest difference ", HumanNumber(max_abs), ": ", within ? "within" : "NOT within",
              " tolerance (rtol ", tolerance.rtol, ", atol ", tolerance.atol, ")\n"));
  }
  return within ? kGood : kAnswerIsNo;
}

}  // namespace

extern const Command command_compare;
constinit const Command command_compare = {
    .name = "compare",
    .group = Group::kRun,
    .summary = "Hold a model's answers against recorded ones",
    .details =
        "Runs the model on the recorded inputs and says how far each output is from its recording. Two values are "
        "equal when |a - b| <= atol + rtol * |b|; NaN equals only NaN; integers, bools and strings must be equal "
        "exactly. A complex recording is held against a real output whose last dimension is 2.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
