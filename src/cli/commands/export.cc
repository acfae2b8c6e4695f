#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "convert/export_model.h"
#include "engine/session.h"
#include "measure/difference.h"
#include "measure/recording.h"
#include "onnx/schema.h"
#include "onnx/writer.h"
#include "tensor/npz.h"
#include "torch/pickle_names.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {
    {.name = "PROGRAM", .help = "a .pt2 file (torch.export.save) or a TorchScript .pt file"},
};

constexpr Option kOptions[] = {
    {.name = "output",
     .letter = 'o',
     .value = "OUT.onnx",
     .help = "the model to write",
     .completes = Completes::kFile,
     .required = true},
    {.name = "opset", .value = "N", .help = "the opset to export to, 11 to 28 (usually 20)"},
    {.name = "input-names", .value = "A,B", .help = "names for the inputs, in order"},
    {.name = "output-names", .value = "C,D", .help = "names for the outputs, in order"},
    {.name = "dynamic",
     .value = "NAME:AXIS=DIM",
     .help = "call the size of an input's axis DIM and leave it open",
     .repeated = true},
    {.name = "input",
     .value = "NAME:TYPE[D,D]",
     .help = "the type of an input of a TorchScript program: x:float32[batch,3,224,224]; words are open sizes",
     .repeated = true},
    {.name = "no-fold", .help = "keep nodes that only work on weights"},
    {.name = "external-data", .help = "write the weights to a file beside the model"},
    {.name = "keep-trace",
     .help = "say in each node's metadata where in the Python source it came from (this tells paths)"},
    {.name = "eval", .help = "turn a program captured in training mode into one for inference"},
    {.name = "training", .help = "export a program captured in training mode as it is"},
    {.name = "verify", .help = "run the model on the archive's sample inputs, or on --data, and say how far it is off"},
    {.name = "data",
     .value = "FILE.npz",
     .help =
         "recorded inputs and outputs: for --verify, and for the types of a TorchScript program's inputs; sizes that "
         "differ between several recordings are left open",
     .completes = Completes::kFile,
     .repeated = true},
    kMaxInflatedOption,
    kTimeLimitOption,
    kMemoryLimitOption,
    kMaxIterationsOption,
    {.name = "rtol", .value = "R", .help = "relative tolerance of --verify (usually 1e-3)"},
    {.name = "atol", .value = "A", .help = "absolute tolerance of --verify (usually 1e-5)"},
};

constexpr Example kExamples[] = {
    {"ferry export model.pt2 -o model.onnx", "the program's own names and open dimensions"},
    {"ferry export model.pt2 -o model.onnx --opset 17 --input-names image --output-names logits",
     "for an older runtime"},
    {"ferry export model.pt2 -o model.onnx --verify --data io.npz", "and prove it at once"},
    {"ferry export script.pt -o model.onnx --input x:float32[batch,3,224,224]", "TorchScript has no shapes of its own"},
};

// NAME:AXIS=DIM
torch::DynamicAxis ParseDynamic(const std::string& text) {
  size_t equals = text.rfind('='), colon = equals == std::string::npos ? equals : text.rfind(':', equals);
  if (colon == std::string::npos || colon == 0 || equals + 1 == text.size() || colon + 1 == equals)
    throw UsageError{Cat("--dynamic needs NAME:AXIS=DIM, not '", Printable(text), "'")};
  torch::DynamicAxis axis{text.substr(0, colon), 0, text.substr(equals + 1)};
  for (char digit : text.substr(colon + 1, equals - colon - 1)) {
    if (digit < '0' || digit > '9' || axis.axis > 100)
      throw UsageError{Cat("the axis in '", Printable(text), "' is not a number")};
    axis.axis = axis.axis * 10 + (digit - '0');
  }
  return axis;
}

// NAME:TYPE[D,D]: sizes are numbers, or names of sizes that stay open.
torch::InputType ParseInput(const std::string& text) {
  size_t bracket = text.rfind('['), colon = bracket == std::string::npos ? bracket : text.rfind(':', bracket);
  if (colon == std::string::npos || colon == 0 || text.back() != ']')
    throw UsageError{Cat("--input needs NAME:TYPE[D,D], not '", Printable(text), "'")};
  std::string type = text.substr(colon + 1, bracket - colon - 1);
  torch::InputType input{text.substr(0, colon), DTypeFromName(type), {}};
  if (input.dtype == DType::kUndefined) input.dtype = torch::DTypeFromTorchName(Cat("torch.", type));
  if (input.dtype == DType::kUndefined || input.dtype == DType::kString)
    throw UsageError{Cat("'", Printable(type), "' is no element type")};
  std::string inside = text.substr(bracket + 1, text.size() - bracket - 2);
  for (const std::string& size : inside.empty() ? std::vector<std::string>() : SplitText(inside, ',')) {
    bool is_number = !size.empty() && size.size() < 19 && size.find_first_not_of("0123456789") == std::string::npos;
    if (size.empty()) throw UsageError{Cat("'", Printable(text), "' has an empty size")};
    input.shape.push_back(is_number ? Dim(static_cast<int64_t>(std::stoll(size))) : Dim::Named(size));
  }
  return input;
}

std::vector<std::string> Names(const Arguments& arguments, std::string_view option) {
  if (!arguments.Has(option)) return {};
  std::vector<std::string> names = SplitText(arguments.Get(option), ',');
  for (const std::string& name : names)
    if (name.empty()) throw UsageError{Cat("--", option, " has an empty name")};
  return names;
}

torch::ExportOptions OptionsFrom(const Arguments& arguments) {
  torch::ExportOptions options;
  options.opset = static_cast<int>(arguments.Int("opset", torch::kDefaultOpset, torch::kOldestOpset, NewestOpset("")));
  options.input_names = Names(arguments, "input-names");
  options.output_names = Names(arguments, "output-names");
  for (const std::string& text : arguments.All("dynamic")) options.dynamic.push_back(ParseDynamic(text));
  options.fold = !arguments.Has("no-fold");
  options.keep_trace = arguments.Has("keep-trace");
  if (arguments.Has("eval") && arguments.Has("training")) throw UsageError{"--eval and --training exclude each other"};
  if (arguments.Has("eval")) options.training = torch::LowerOptions::Training::kConvert;
  if (arguments.Has("training")) options.training = torch::LowerOptions::Training::kKeep;
  for (const std::string& text : arguments.All("input")) options.input_types.push_back(ParseInput(text));
  bool is_pt2 = std::string_view(arguments.positions()[0]).ends_with(".pt2");
  if (is_pt2 && arguments.Has("data") && !arguments.Has("verify")) throw UsageError{"--data is for --verify"};
  for (const std::string& path : arguments.All("data")) options.samples.push_back(ReadNpz(path));
  return options;
}

struct Proof {
  std::string on;  // what it was run on
  bool held_against_recording = false;
  bool within = true;
  double max_abs = 0, max_rel = 0;
  std::string reason;
};

Proof HoldAgainst(const Session& session, const std::string& path, Tolerance tolerance) {
  Recording recording = ReadRecording(path, session);
  if (recording.outputs.empty())
    Fail(ErrorCode::kInvalidArgument, path, ": there is no recorded output in it to compare with");
  std::vector<std::string> names;
  for (const NamedValue& output : recording.outputs) names.push_back(output.first);
  std::vector<Value> results = session.Run(recording.inputs, names);
  Proof proof{.on = path, .held_against_recording = true};
  for (size_t i = 0; i < results.size(); ++i) {
    Difference difference = Compare(results[i], recording.outputs[i].second, tolerance, TypeRule::kRecorded);
    proof.max_abs = std::max(proof.max_abs, difference.max_abs);
    proof.max_rel = std::max(proof.max_rel, difference.max_rel);
    if (difference.within() || !proof.within) continue;
    proof.within = false;
    proof.reason = Cat("output '", Printable(names[i]), "': ", difference.Explain());
  }
  return proof;
}

// Archives hold sample inputs but not what PyTorch made of them: the optimised model is held against the plain one.
Proof HoldAgainstPlain(const Session& session, const Model& model, const torch::Exported& exported,
                       Tolerance tolerance) {
  std::vector<NamedValue> inputs;
  for (const auto& [name, tensor] : exported.sample_inputs) inputs.emplace_back(name, tensor);
  std::shared_ptr<Session> plain = Session::FromModel(CopyDeep(model), {.threads = 1, .optimize = false});
  std::vector<Value> results = session.Run(inputs), expected = plain->Run(inputs);
  Proof proof{.on = "the archive's sample inputs"};
  for (size_t i = 0; i < results.size(); ++i) {
    Difference difference = Compare(results[i], expected[i], tolerance);
    proof.max_abs = std::max(proof.max_abs, difference.max_abs);
    proof.max_rel = std::max(proof.max_rel, difference.max_rel);
    if (difference.within() || !proof.within) continue;
    proof.within = false;
    proof.reason = Cat("output '", Printable(session.outputs()[i].name), "': ", difference.Explain());
  }
  return proof;
}

std::vector<Proof> Verify(const Arguments& arguments, const torch::Exported& exported, const std::string& path) {
  Tolerance tolerance{arguments.Number("rtol", 1e-3), arguments.Number("atol", 1e-5)};
  std::shared_ptr<Session> session = Session::Open(path, {});
  std::vector<Proof> proofs;
  for (const std::string& data : arguments.All("data")) proofs.push_back(HoldAgainst(*session, data, tolerance));
  if (!proofs.empty()) return proofs;
  if (exported.sample_inputs.size() != session->inputs().size())
    Fail(ErrorCode::kInvalidArgument,
         "the archive has no sample inputs to verify with; give recorded ones with --data FILE.npz");
  return {HoldAgainstPlain(*session, exported.model, exported, tolerance)};
}

void PrintProof(const Proof& proof) {
  Print(Cat("verified on ", proof.on, ": max difference ", HumanNumber(proof.max_abs), " (relative ",
            HumanNumber(proof.max_rel), "), ", proof.within ? "equal" : Cat("NOT equal: ", proof.reason), "\n"));
  if (!proof.held_against_recording)
    Print(
        "  the archive records no outputs: this compares Ferry's optimised model with the plain one; "
        "--data FILE.npz holds it against PyTorch\n");
}

Json ToJson(const Proof& proof) {
  Json json;
  json.Set("on", proof.on).Set("recorded", proof.held_against_recording).Set("within", proof.within);
  json.Set("max_abs", proof.max_abs).Set("max_rel", proof.max_rel);
  if (!proof.within) json.Set("reason", proof.reason);
  return json;
}

Json DescribeJson(const std::vector<ValueInfo>& values) {
  Json list = Json::Array{};
  for (const ValueInfo& value : values) list.Add(Json().Set("name", value.name).Set("type", ToText(value.type)));
  return list;
}

int Run(const Arguments& arguments) {
  const RunScope scope("the export", LimitsFrom(arguments));
  torch::ExportOptions options = OptionsFrom(arguments);
  auto start = std::chrono::steady_clock::now();
  torch::Exported exported = ExportModel(arguments.positions()[0], options);
  std::string path = arguments.Get("output");
  WriteOptions writing;
  if (arguments.Has("external-data")) writing.external = WriteOptions::External::kAlways;
  WriteModel(exported.model, path, writing);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  const Graph& graph = exported.model.graph;
  if (!arguments.json()) {
    for (const std::string& warning : exported.warnings) Print(Cat("warning: ", warning, "\n"));
    std::error_code no_size;  // a device or pipe has none
    auto bytes = static_cast<double>(std::filesystem::file_size(path, no_size));
    Print(Cat("wrote ", Printable(path), ": opset ", options.opset, ", ",
              Plural(static_cast<int64_t>(graph.nodes.size()), "node"), ", ",
              no_size ? "" : Cat(HumanBytes(bytes), ", "), "in ", HumanNumber(seconds), " s\n"));
    for (const ValueInfo& input : graph.inputs)
      Print(Cat("  input  ", Printable(input.name), ": ", ToText(input.type), "\n"));
    for (const ValueInfo& output : graph.outputs)
      Print(Cat("  output ", Printable(output.name), ": ", ToText(output.type), "\n"));
  }
  std::vector<Proof> proofs;
  if (arguments.Has("verify")) proofs = Verify(arguments, exported, path);
  bool within = true;
  for (const Proof& proof : proofs) {
    within = within && proof.within;
    if (!arguments.json()) PrintProof(proof);
  }
  if (arguments.json()) {
    Json json, checks = Json::Array{};
    for (const Proof& proof : proofs) checks.Add(ToJson(proof));
    json.Set("model", path).Set("opset", options.opset).Set("nodes", graph.nodes.size()).Set("seconds", seconds);
    json.Set("inputs", DescribeJson(graph.inputs)).Set("outputs", DescribeJson(graph.outputs));
    json.Set("warnings", Json::List(exported.warnings));
    if (arguments.Has("verify")) json.Set("verified", std::move(checks)).Set("within", within);
    PrintJson(json);
  }
  return within ? kGood : kAnswerIsNo;
}

}  // namespace

extern const Command command_export;
constinit const Command command_export = {
    .name = "export",
    .group = Group::kMake,
    .summary = "Turn a PyTorch program into an ONNX model, without PyTorch",
    .details =
        "Reads what torch.export.save writes (.pt2, since PyTorch 2.1) and TorchScript archives (.pt), and writes "
        "ONNX. "
        "TorchScript has no shapes: they come from --input, from --data, or from what the program was traced with. "
        "Nothing in the archive is run. Parameters keep the names they have in the module, open dimensions the names "
        "they have in the program. What has no export is refused by name of its operator, node and module. Assertions "
        "about data have no counterpart in ONNX and are left out.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
