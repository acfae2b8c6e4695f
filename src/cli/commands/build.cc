#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/atomic_file.h"
#include "base/directory.h"
#include "base/run_program.h"
#include "cli/build_check.h"
#include "cli/measure_code.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "convert/c/build_c.h"
#include "measure/random_input.h"
#include "measure/recording.h"
#include "onnx/reader.h"
#include "onnx/value_file.h"
#include "tensor/npy.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {kModelPosition};

constexpr Option kOptions[] = {
    {.name = "output",
     .letter = 'o',
     .value = "DIR",
     .help = "the folder for NAME.c, NAME.h and CMakeLists.txt, made if it is not there",
     .completes = Completes::kDirectory,
     .required = true},
    {.name = "name", .value = "NAME", .help = "of the files and functions (usually the model's file name)"},
    kDimOption,
    {.name = "fix",
     .value = "NAME=FILE",
     .help = "make an input a constant: a .npy or ONNX .pb file; needed where it decides shapes",
     .completes = Completes::kFile,
     .repeated = true},
    {.name = "target",
     .value = "T",
     .help = "what it is for: c99 has forms for Cortex-M and for vector units beside plain loops, x86-64 and arm64 lay "
             "8-bit weights out for their vectors, plain has the loops alone (usually c99)",
     .words = "c99 cortex-m x86-64 arm64 plain"},
    {.name = "weights-file",
     .help = "put large weights into NAME.bin, which the assembler takes in (.incbin; gcc and clang)"},
    {.name = "static-weights", .help = "write all weights as C arrays (this is usual)"},
    {.name = "fit",
     .value = "BYTES",
     .help = "do steps by stripes of rows until the arena has no more than this; fail where that is not enough"},
    {.name = "verify",
     .help =
         "compile it with $CC (options too) or cc, run it on recorded or random inputs and compare with the engine"},
    {.name = "inputs",
     .value = "FILE.npz",
     .help = "recorded inputs (and outputs) for --verify; usually test_data_set_0 beside the model, or random ones",
     .completes = Completes::kFile},
    {.name = "test",
     .help = "write NAME_test.c, too: a main() for the board, with inputs and what the engine answers; 0 is the same"},
    {.name = "layers",
     .help = "list every step: its multiply-adds, and the bytes of the arena that are alive in it; and what $CC makes "
             "of all: code and stack"},
    {.name = "bench", .help = "compile it with -O3 -march=native and time it"},
};

constexpr Example kExamples[] = {
    {"ferry build kws.onnx -o kws", "kws/kws.c and kws/kws.h"},
    {"ferry build model.onnx -o out --dim batch=1 --verify", "and see that it answers as Ferry does"},
    {"ferry build model.onnx -o out --bench", "how fast it is on this machine"},
    {"ferry build kws.onnx -o kws --fit 16k --test", "in less memory, and with a program that tests it on the board"},
};

Tensor ReadTensorFile(const std::string& path, const Type* type) {
  if (path.size() > 3 && path.substr(path.size() - 3) == ".pb") return ReadValueFile(path, type).tensor();
  return ReadNpy(path);
}

struct Recorded {
  std::map<std::string, Tensor> inputs;
  std::vector<Tensor> outputs;  // by position; may be empty
};

// What lies beside the model as ONNX's test cases have it, or what the user names.
Recorded FindRecording(const Arguments& arguments, const std::string& path, const Model& model) {
  Recorded found;
  if (arguments.Has("inputs")) {
    const std::shared_ptr<Session> session = Session::Open(path, {.threads = 1});
    const Recording recording = ReadRecording(arguments.Get("inputs"), *session);
    for (const auto& [name, value] : recording.inputs)
      if (value.is_tensor()) found.inputs[name] = value.tensor();
    if (recording.outputs.size() == model.graph.outputs.size())
      for (const auto& [name, value] : recording.outputs)
        if (value.is_tensor()) found.outputs.push_back(value.tensor());
    return found;
  }
  const size_t slash = path.find_last_of('/');
  const std::string folder = JoinPath(slash == std::string::npos ? "." : path.substr(0, slash), "test_data_set_0");
  if (!IsDirectory(folder)) return found;
  for (size_t i = 0; i < model.graph.inputs.size(); ++i) {
    const std::string file = JoinPath(folder, Cat("input_", i, ".pb"));
    if (!IsFile(file)) break;
    const ValueInfo& info = model.graph.inputs[i];
    if (!info.type.is_tensor()) continue;
    found.inputs[info.name] = ReadValueFile(file, &info.type).tensor();
  }
  for (size_t i = 0; i < model.graph.outputs.size(); ++i) {
    const std::string file = JoinPath(folder, Cat("output_", i, ".pb"));
    if (!IsFile(file) || !model.graph.outputs[i].type.is_tensor()) return {std::move(found.inputs), {}};
    found.outputs.push_back(ReadValueFile(file, &model.graph.outputs[i].type).tensor());
  }
  return found;
}

void WriteFile(const std::string& folder, const std::string& name, std::string_view text) {
  AtomicFile file(JoinPath(folder, name));
  file.Write(text);
  file.Commit();
}

struct Verdict {
  bool good = true;
  std::string reason = {};
  double us = 0;
  CodeSize code = {};
};

// Inputs for the compiled program, in the order of the call.
std::vector<Tensor> InputsFor(const CBuild& built, const Session& session, const Recorded& recorded,
                              const std::map<std::string, int64_t>& dimensions) {
  std::vector<Tensor> inputs;
  std::vector<NamedValue> random;
  for (const CArgument& argument : built.inputs) {
    auto known = recorded.inputs.find(argument.name);
    if (known != recorded.inputs.end()) {
      inputs.push_back(known->second);
      continue;
    }
    if (random.empty()) random = MakeRandomInputs(session, {.seed = 1, .dimensions = dimensions});
    for (const auto& [name, value] : random)
      if (name == argument.name) inputs.push_back(value.tensor());
  }
  Require(inputs.size() == built.inputs.size(), "an input has neither a recording nor a fixed shape");
  return inputs;
}

Verdict Check(const CBuild& built, const std::string& folder, const std::string& path, const Recorded& recorded,
              const Arguments& arguments) {
  Verdict verdict;
  const std::shared_ptr<Session> session = Session::Open(path, {.threads = 1, .exact = true});
  const std::vector<Tensor> inputs = InputsFor(built, *session, recorded, DimensionsFrom(arguments));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!(inputs[i].shape() == built.inputs[i].shape) || inputs[i].dtype() != built.inputs[i].type)
      Fail(ErrorCode::kInvalidArgument, "input '", Printable(built.inputs[i].name), "' was recorded with shape ",
           inputs[i].shape(), ", the C is for ", built.inputs[i].shape);
  std::vector<Value> expected;
  if (arguments.Has("verify") || arguments.Has("test")) {
    std::vector<NamedValue> named;
    for (size_t i = 0; i < inputs.size(); ++i) named.emplace_back(built.inputs[i].name, inputs[i]);
    expected = session->Run(named);
  }
  if (arguments.Has("test")) {
    std::vector<Tensor> answers;
    for (const Value& value : expected) answers.push_back(value.tensor());
    WriteFile(folder, Cat(built.name, "_test.c"), TestText(built, inputs, answers));
  }
  if (arguments.Has("verify")) {
    const CompiledRun run = CompileAndRun(
        built, folder, inputs, 0, {"-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-O1"});
    if (!run.compiler_log.empty()) return {false, Cat("it does not compile:\n", run.compiler_log)};
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      std::string why = CompareOutput(run.outputs[i], expected[i].tensor()).Explain();
      if (!why.empty() && i < recorded.outputs.size() && CompareOutput(run.outputs[i], recorded.outputs[i]).within())
        why.clear();
      if (!why.empty()) return {false, Cat("output '", Printable(built.outputs[i].name), "': ", why), 0};
    }
  }
  if (arguments.Has("bench")) {
    const CompiledRun run = CompileAndRun(built, folder, inputs, 1, {"-std=gnu99", "-w", "-O3", "-march=native"});
    if (!run.compiler_log.empty()) return {false, Cat("it does not compile:\n", run.compiler_log)};
    verdict.us = run.median_us;
  }
  return verdict;
}

std::string LayersText(const CBuild& built, int64_t multiply_adds) {
  std::string text = "  multiply-adds  share   bytes alive  step\n";
  for (const CStep& step : built.steps) {
    char numbers[80];
    std::snprintf(numbers, sizeof numbers, "%15lld %5.1f %% %13zu  ", static_cast<long long>(step.multiply_adds),
                  100.0 * static_cast<double>(step.multiply_adds) / std::max(1.0, static_cast<double>(multiply_adds)),
                  step.live_bytes);
    text += Cat(numbers, step.op, " '", Printable(step.node), "'\n");
  }
  return text;
}

Json StripesJson(const CBuild& built) {
  Json stripes = Json::Array{};
  for (const CStripes& run : built.stripes)
    stripes.Add(Json()
                    .Set("first", run.first)
                    .Set("last", run.last)
                    .Set("nodes", static_cast<int64_t>(run.nodes))
                    .Set("stripes", static_cast<int64_t>(run.stripes))
                    .Set("more_multiply_adds", run.more_multiply_adds));
  return stripes;
}

Json ArgumentJson(const CArgument& argument) {
  Json json =
      Json().Set("name", argument.name).Set("type", Name(argument.type)).Set("shape", Json::List(argument.shape));
  if (argument.scale != 0) json.Set("scale", double{argument.scale}).Set("zero_point", argument.zero_point);
  return json;
}

void Report(const Arguments& arguments, const CBuild& built, const std::string& folder, const Verdict& verdict) {
  int64_t multiply_adds = 0;
  for (const CStep& step : built.steps) multiply_adds += step.multiply_adds;
  if (arguments.json()) {
    Json steps = Json::Array{}, inputs = Json::Array{}, outputs = Json::Array{};
    for (const CStep& step : built.steps)
      steps.Add(Json()
                    .Set("node", step.node)
                    .Set("op", step.op)
                    .Set("function", step.function)
                    .Set("multiply_adds", step.multiply_adds)
                    .Set("live_bytes", static_cast<int64_t>(step.live_bytes)));
    for (const CArgument& input : built.inputs) inputs.Add(ArgumentJson(input).Set("fixed", input.is_fixed));
    for (const CArgument& output : built.outputs) outputs.Add(ArgumentJson(output));
    Json all = Json()
                   .Set("name", built.name)
                   .Set("folder", folder)
                   .Set("arena_bytes", static_cast<int64_t>(built.arena_bytes))
                   .Set("weight_bytes", static_cast<int64_t>(built.weight_bytes))
                   .Set("source_bytes", static_cast<int64_t>(built.source.size()))
                   .Set("multiply_adds", multiply_adds)
                   .Set("inputs", std::move(inputs))
                   .Set("outputs", std::move(outputs))
                   .Set("steps", std::move(steps));
    if (!built.stripes.empty()) all.Set("stripes", StripesJson(built));
    if (arguments.Has("verify")) all.Set("verified", verdict.good);
    if (verdict.us > 0) all.Set("median_us", verdict.us);
    if (verdict.code.bytes > 0) all.Set("code_bytes", static_cast<int64_t>(verdict.code.bytes));
    if (verdict.code.stack > 0) all.Set("stack_bytes", static_cast<int64_t>(verdict.code.stack));
    return PrintJson(all);
  }
  std::string text =
      Cat(Printable(JoinPath(folder, built.name)), ".c: ", Plural(static_cast<int64_t>(built.steps.size()), "step"),
          ", ", HumanCount(static_cast<double>(multiply_adds)), " multiply-adds, arena ", built.arena_bytes,
          " bytes, weights ", built.weight_bytes, " bytes\n");
  for (const CStripes& run : built.stripes)
    text += Cat("nodes '", Printable(run.first), "' to '", Printable(run.last), "' in ", run.stripes,
                " stripes: ", HumanCount(static_cast<double>(run.more_multiply_adds)), " multiply-adds more\n");
  for (const CArgument& input : built.inputs)
    if (input.is_fixed) text += Cat("input '", Printable(input.name), "' is fixed\n");
  if (verdict.code.bytes > 0)
    text += Cat("code ", verdict.code.bytes, " bytes",
                verdict.code.stack > 0 ? Cat(", stack ", verdict.code.stack, " bytes") : std::string(), " (",
                Printable(verdict.code.compiler), ")\n");
  if (arguments.Has("layers")) text += LayersText(built, multiply_adds);
  if (arguments.Has("verify")) text += "compiled, run, and as the engine has it\n";
  if (verdict.us > 0) text += Cat(HumanTime(verdict.us / 1000), " a run\n");
  Print(text);
}

int Run(const Arguments& arguments) {
  const std::string& path = arguments.positions()[0];
  const Model model = ReadModel(path);
  std::string name = arguments.Get("name");
  if (name.empty()) {
    name = std::string(LastPart(path));
    if (const size_t dot = name.find_last_of('.'); dot != std::string::npos && dot > 0) name.resize(dot);
  }
  const Recorded recorded = FindRecording(arguments, path, model);
  CBuildRequest request{.model = model, .name = CName(name)};
  request.dimensions = DimensionsFrom(arguments);
  request.recorded = recorded.inputs;
  for (const auto& [input, tensor] : recorded.inputs) request.shapes[input] = tensor.shape();
  for (const auto& [input, file] : arguments.Pairs("fix")) {
    const ValueInfo* info = model.graph.FindInput(input);
    if (!info) Fail(ErrorCode::kInvalidArgument, "the model has no input '", Printable(input), "'");
    request.fixed[input] = ReadTensorFile(file, &info->type);
  }
  const std::string target = arguments.Get("target", "c99");
  request.fast = target != "plain";
  request.target = target == "x86-64" ? CTarget::kX86 : target == "arm64" ? CTarget::kArm64 : CTarget::kAny;
  request.weights_file = arguments.Has("weights-file");
  if (arguments.Has("fit")) request.most_arena_bytes = static_cast<size_t>(arguments.Bytes("fit", 0));
  const CBuild built = BuildC(request);
  const std::string folder = arguments.Get("output");
  MakeFolder(folder);
  WriteFile(folder, Cat(built.name, ".c"), built.source);
  WriteFile(folder, Cat(built.name, ".h"), built.header);
  WriteFile(folder, "CMakeLists.txt", built.cmake);
  if (!built.weights.empty()) WriteFile(folder, Cat(built.name, ".bin"), built.weights);
  Verdict verdict;
  if (arguments.Has("verify") || arguments.Has("test") || arguments.Has("bench"))
    verdict = Check(built, folder, path, recorded, arguments);
  if (arguments.Has("layers") || arguments.Has("bench")) verdict.code = MeasureCode(built, folder);
  if (!verdict.good) {
    Print(Cat(Printable(JoinPath(folder, built.name)), ".c: ", verdict.reason, "\n"));
    return kAnswerIsNo;
  }
  Report(arguments, built, folder, verdict);
  return kGood;
}

}  // namespace

extern const Command command_build;
constinit const Command command_build = {
    .name = "build",
    .group = Group::kMake,
    .summary = "Turn a model into plain C without a heap, for boards and microcontrollers",
    .details =
        "Writes one .c and one .h in C99: no heap, no state but an arena that the caller may give, weights that may "
        "stay in flash. "
        "Convolutions with their activations, folded batch norms and 8-bit steps are written as the engine runs them; "
        "memory is shared by lifetime. Shapes must be fixed: --dim gives named sizes. What cannot be written is "
        "refused with the node and the reason.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
