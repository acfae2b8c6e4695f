#include "base/directory.h"
#include "base/error.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "cli/tensor_text.h"
#include "measure/recording.h"
#include "onnx/value_file.h"
#include "ops/infer_graph.h"
#include "tensor/npy.h"
#include "tensor/npz.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {kModelPosition};

constexpr Option kOptions[] = {
    {.name = "input",
     .value = "NAME=FILE",
     .help = "one input from a .npy file, or an ONNX .pb file",
     .completes = Completes::kFile,
     .repeated = true},
    {.name = "inputs",
     .value = "FILE.npz",
     .help = "inputs by name, or in0, in1 … by position; recorded outputs in it are left aside",
     .completes = Completes::kFile},
    {.name = "outputs", .value = "FILE.npz", .help = "write the outputs to FILE.npz", .completes = Completes::kFile},
    {.name = "output",
     .value = "NAME",
     .help = "give only this value, which may be any value inside the model",
     .repeated = true},
    kThreadsOption,
    kProviderOption,
    kCacheOption,
    kExactOption,
    kTuneOption,
    kPrecisionOption,
    kTimeLimitOption,
    kMemoryLimitOption,
    kDeviceMemoryOption,
    kMaxIterationsOption,
    kMaxInflatedOption,
};

constexpr Example kExamples[] = {
    {"ferry run model.onnx --input x=photo.npy", "one input from a numpy file"},
    {"ferry run model.onnx --inputs in.npz --outputs out.npz", "all inputs and outputs in archives"},
    {"ferry run model.onnx --inputs in.npz --output /layer1/Relu_output_0", "what a value inside the model is"},
    {"ferry run model.onnx --inputs in.npz --time-limit 2 --memory-limit 500M", "a model from somebody else"},
};

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

Value ReadInput(const Session& session, const std::string& name, const std::string& path) {
  if (!EndsWith(path, ".pb")) return ReadNpy(path);
  const ValueInfo* info = session.model().graph.FindInput(name);
  return ReadValueFile(path, info ? &info->type : nullptr);
}

std::vector<NamedValue> CollectInputs(const Arguments& arguments, const Session& session) {
  const RunScope scope("reading the inputs", LimitsFrom(arguments));
  std::vector<NamedValue> inputs;
  if (arguments.Has("inputs")) inputs = ReadRecording(arguments.Get("inputs"), session).inputs;
  for (const auto& [name, path] : arguments.Pairs("input")) inputs.emplace_back(name, ReadInput(session, name, path));
  RequireInputNames(session, inputs);
  return inputs;
}

void Collect(const std::string& name, const Value& value, NamedTensors& tensors) {
  if (value.is_tensor()) {
    tensors.emplace_back(name, value.tensor());
  } else if (value.is_sequence()) {
    for (size_t i = 0; i < value.sequence().elements.size(); ++i)
      Collect(Cat(name, ".", i), value.sequence().elements[i], tensors);
  } else if (!value.is_nothing()) {
    Fail(ErrorCode::kUnsupported, "output '", Printable(name), "' is ", value.KindName(), ", which .npz can't hold");
  }
}

int Run(const Arguments& arguments) {
  std::shared_ptr<Session> session = Session::Open(arguments.positions()[0], SessionOptionsFrom(arguments));
  std::vector<NamedValue> inputs = CollectInputs(arguments, *session);
  std::vector<std::string> names = arguments.All("output");
  std::vector<Value> results = session->Run(inputs, names);
  if (names.empty())
    for (const ValueInfo& output : session->outputs()) names.push_back(output.name);

  if (arguments.Has("outputs")) {
    NamedTensors tensors;
    for (size_t i = 0; i < results.size(); ++i) Collect(names[i], results[i], tensors);
    WriteNpz(arguments.Get("outputs"), tensors);
  }
  if (arguments.json()) {
    Json outputs = Json::Array{};
    for (size_t i = 0; i < results.size(); ++i) {
      Json output = Json().Set("name", names[i]), value = ValueToJson(results[i]);
      for (const auto& [key, part] : value.AsObject()) output.Set(key, part);
      outputs.Add(std::move(output));
    }
    PrintJson(Json().Set("outputs", std::move(outputs)));
  } else if (arguments.Has("outputs")) {
    Print(
        Cat("wrote ", Plural(static_cast<int64_t>(results.size()), "output"), " to ", arguments.Get("outputs"), "\n"));
  } else {
    for (size_t i = 0; i < results.size(); ++i)
      Print(Cat(Printable(names[i]), "  ", TypeOf(results[i]), "\n", FormatValue(results[i], "  ")));
  }
  return kGood;
}

}  // namespace

extern const Command command_run;
constinit const Command command_run = {
    .name = "run",
    .group = Group::kRun,
    .summary = "Run a model on given inputs",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
