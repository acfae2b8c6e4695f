#include <algorithm>

#include "base/atomic_file.h"
#include "base/directory.h"
#include "base/error.h"
#include "cli/findings.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "measure/compare/report.h"
#include "measure/elements.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {
    kModelPosition,
    {.name = "OTHER", .help = "another model, or recordings as after --data", .optional = true, .repeated = true},
};

constexpr Option kOptions[] = {
    {.name = "data",
     .value = "FILE.npz",
     .help = "recorded inputs and outputs, or a folder of them; keys are names, or in0, in1 … and out0, out1 …",
     .completes = Completes::kFile,
     .repeated = true},
    {.name = "against",
     .value = "WHAT",
     .help = "hold the model against itself: unoptimised, float64, float32 (with --precision bf16), or on another "
             "provider (cpu)",
     .words = "unoptimised float64 float32 cpu"},
    {.name = "rtol", .value = "R", .help = "relative tolerance (usually 1e-3)"},
    {.name = "atol", .value = "A", .help = "absolute tolerance (usually 1e-5)"},
    {.name = "top-k", .value = "K", .help = "how many of the largest elements must be the same (usually 5)"},
    {.name = "random", .value = "N", .help = "samples drawn at random (usually 3 when there is no --data, else none)"},
    {.name = "seed", .value = "N", .help = "what random samples start from (usually 1)"},
    {.name = "no-edge-cases", .help = "leave out zeros, ones, large, tiny, denormal and constant inputs"},
    {.name = "layers", .help = "show the error of every layer of two sides, also when all is well"},
    {.name = "save-worst",
     .value = "FILE.npz",
     .help = "keep the sample that is furthest off, to be given to --data again",
     .completes = Completes::kFile},
    {.name = "html", .value = "FILE", .help = "write a report as one page", .completes = Completes::kFile},
    kDimOption,
    kThreadsOption,
    kProviderOption,
    kExactOption,
    kTuneOption,
    kPrecisionOption,
    kTimeLimitOption,
    kMemoryLimitOption,
    kMaxIterationsOption,
    kMaxInflatedOption,
};

constexpr Example kExamples[] = {
    {"ferry compare model.onnx --data io.npz", "does it answer as PyTorch did?"},
    {"ferry compare model.onnx --data io_*.npz --rtol 1e-4", "several recordings, a tighter tolerance"},
    {"ferry compare new.onnx old.onnx --data io.npz", "two models; names the layer where they part"},
    {"ferry compare model.onnx --against float64", "how much does float32 lose, and where?"},
    {"ferry compare model.onnx --precision bf16 --against float32 --rtol 0.02 --atol 0.01", "how much does bf16 lose?"},
    {"ferry compare new.onnx old.onnx --html report.html", "a page to send round"},
};

struct Request {
  std::string other;  // a model, or empty
  std::vector<std::string> recordings;
};

bool IsRecording(const std::string& path) {
  return IsDirectory(path) || (path.size() > 4 && path.compare(path.size() - 4, 4, ".npz") == 0);
}

Request ReadRequest(const Arguments& arguments) {
  Request request;
  std::vector<std::string> paths = arguments.All("data");
  for (size_t i = 1; i < arguments.positions().size(); ++i) {
    const std::string& path = arguments.positions()[i];
    if (IsRecording(path))
      paths.push_back(path);
    else if (request.other.empty())
      request.other = path;
    else
      throw UsageError{Cat("two models can be compared, not three: '", Printable(path), "'")};
  }
  if (!request.other.empty() && arguments.Has("against"))
    throw UsageError{"either another model or --against, not both"};
  if (request.other.empty() && !arguments.Has("against") && paths.empty())
    throw UsageError{"needs something to compare with: --data FILE.npz, another model, or --against WHAT"};
  request.recordings = FindRecordings(paths);
  return request;
}

// A recording with NaN where the model gives a number, made from inputs without any, was not made well.
void RefuseNan(const Sample& sample, const Side& side) {
  auto nan_at = [](const Value& value) -> int64_t {
    if (!value.is_tensor() || !IsFloating(value.tensor().dtype())) return -1;
    std::vector<double> numbers = ToDoubles(value.tensor());
    auto it = std::find_if(numbers.begin(), numbers.end(), [](double x) { return x != x; });
    return it == numbers.end() ? -1 : it - numbers.begin();
  };
  for (const NamedValue& input : sample.inputs)
    if (nan_at(input.second) >= 0) return;
  for (const NamedValue& output : sample.recorded_outputs) {
    int64_t place = nan_at(output.second);
    if (place < 0) continue;
    std::vector<Value> ours = side.Run(sample.inputs, std::vector<std::string>{output.first});
    bool comparable = ours[0].is_tensor() && IsFloating(ours[0].tensor().dtype()) &&
                      ours[0].tensor().shape() == output.second.tensor().shape();
    if (!comparable) continue;
    double answer = ToDoubles(ours[0].tensor())[static_cast<size_t>(place)];
    if (answer == answer)
      Fail(ErrorCode::kInvalidArgument, sample.name, ": the recorded output '", Printable(output.first),
           "' is NaN at element ", place, ", where the model gives ", answer, ": record it again");
  }
}

std::vector<Sample> GatherSamples(const Request& request, const Side& side, const Arguments& arguments,
                                  bool with_generated) {
  const RunScope scope("gathering samples", LimitsFrom(arguments));
  std::vector<Sample> samples;
  for (const std::string& path : request.recordings) {
    samples.push_back(ReadSample(path, side.session()));
    RefuseNan(samples.back(), side);
  }
  if (!with_generated) return samples;
  int64_t random = arguments.Int("random", samples.empty() ? 3 : 0, 0, 100000);
  auto seed = static_cast<uint64_t>(arguments.Int("seed", 1, 0, INT64_MAX));
  for (Sample& sample : MakeRandomSamples(side.session(), DimensionsFrom(arguments), random, seed))
    samples.push_back(std::move(sample));
  if (arguments.Has("no-edge-cases") || samples.empty()) return samples;
  for (Sample& sample : MakeEdgeCases(samples[0])) samples.push_back(std::move(sample));
  return samples;
}

std::vector<std::string> Cells(const std::string& sample, const ComparedOutput& output) {
  const Difference& d = output.difference;
  std::vector<std::string> cells{sample,
                                 Printable(output.name, 40),
                                 output.type,
                                 HumanNumber(d.max_abs),
                                 HumanNumber(d.mean_abs),
                                 HumanNumber(d.max_rel),
                                 HumanNumber(d.mean_rel)};
  if (output.agreement) {
    const Agreement& a = *output.agreement;
    cells.push_back(a.cosine ? CosineText(*a.cosine) : "");
    cells.push_back(HumanNumber(a.max_ulp));
    cells.push_back(AgreementText(a.argmax));
    cells.push_back(AgreementText(a.top_k));
  } else {
    cells.insert(cells.end(), 4, "");
  }
  cells.push_back(d.Explain());
  while (cells.back().empty()) cells.pop_back();
  return cells;
}

std::string Table(const Comparison& comparison) {
  Columns columns({}, "");
  columns.Add({"sample", "output", "type", "max abs", "mean abs", "max rel", "mean rel", "cosine", "max ulp", "argmax",
               Cat("top ", comparison.k)});
  for (const ComparedSample& sample : comparison.samples) {
    std::string name(Printable(LastPart(sample.name), 40));
    if (!sample.refused.empty()) columns.Add({name, Cat("left out: ", Printable(sample.refused, 100))});
    if (!sample.only_one.empty()) columns.Add({name, Printable(sample.only_one, 200)});
    for (const ComparedOutput& output : sample.outputs) columns.Add(Cells(name, output));
  }
  return columns.Text();
}

std::string RangeText(const ValueRange& range) {
  return Cat(range.type, "  ", HumanNumber(range.least), " … ", HumanNumber(range.largest),
             range.not_finite > 0 ? Cat(", ", range.not_finite, " not finite") : "");
}

std::string FaultBlock(const LayerTrace& trace) {
  const FaultyLayer& layer = *trace.first;
  Columns lines({}, "  ");
  for (const std::string& difference : layer.differences) lines.Add({"differs", Printable(difference, 200)});
  if (layer.own_error)
    lines.Add({"by itself", Cat("given the other side's inputs it is off by ", HumanNumber(*layer.own_error))});
  if (!layer.other_op.empty() && (layer.other_op != layer.op || layer.other_name != layer.name))
    lines.Add({"other side", Cat("'", Printable(layer.other_name, 60), "' (", layer.other_op, ")")});
  for (const ValueRange& input : layer.inputs)
    lines.Add(
        {input.is_weight ? "weight" : "input", Cat(Printable(input.name, 60), "  ", RangeText(input),
                                                   input.error ? Cat(", off by ", HumanNumber(*input.error)) : "")});
  lines.Add({"result", RangeText(layer.output)});
  lines.Add({"expected", RangeText(layer.expected)});
  return Cat("first layer that goes wrong: ", FaultText(layer), "\n", lines.Text());
}

constexpr size_t kLongestPath = 16;

std::string PathBlock(const LayerTrace& trace) {
  Columns lines({}, "  ");
  size_t skip_from = trace.path.size(), skip_to = trace.path.size();
  if (trace.path.size() > kLongestPath) skip_from = kLongestPath / 2, skip_to = trace.path.size() - kLongestPath / 2;
  for (size_t i = 0; i < trace.path.size(); ++i) {
    if (i == skip_from) lines.Add({Cat("… ", Plural(static_cast<int64_t>(skip_to - skip_from), "layer"))});
    if (i >= skip_from && i < skip_to) continue;
    const TracedLayer& layer = trace.layers[trace.path[i]];
    lines.Add({layer.op, Printable(layer.value, 60), HumanNumber(layer.error)});
  }
  return Cat("the error on its way to the output:\n", lines.Text());
}

std::string LayersBlock(const LayerTrace& trace) {
  Columns lines({}, "  ");
  lines.Add({"layer", "result", "error", "of inputs"});
  for (const TracedLayer& layer : trace.layers)
    lines.Add({layer.op, Printable(layer.value, 60), layer.mismatch.empty() ? HumanNumber(layer.error) : layer.mismatch,
               HumanNumber(layer.input_error)});
  return Cat("layers on sample '", Printable(trace.sample), "':\n", lines.Text());
}

void PrintForPeople(const Comparison& comparison, bool all_layers) {
  std::string text = Cat(comparison.actual, " against ", comparison.expected, "\n\n", Table(comparison), "\n");
  if (std::string cause = CauseText(comparison); !cause.empty()) text += cause + "\n\n";
  if (comparison.trace && all_layers) text += LayersBlock(*comparison.trace) + "\n";
  if (comparison.trace && comparison.trace->first) {
    text += FaultBlock(*comparison.trace);
    if (comparison.trace->path.size() > 1) text += PathBlock(*comparison.trace);
    text += "\n";
  } else if (std::string none = NoFaultText(comparison); !none.empty()) {
    text += none + "\n\n";
  }
  for (const std::string& note : comparison.notes) text += Cat("note: ", Printable(note, 400), "\n");
  Print(Cat(text, VerdictText(comparison), "\n"));
}

Side OtherSide(const Request& request, const Side& side, const Arguments& arguments) {
  SessionOptions options = side.how().options;
  if (!request.other.empty()) return Side::Open(request.other, {std::string(request.other), false, options});
  std::string against = arguments.Get("against");
  if (against == "float64") return side.With({"its float64 run", true, options});
  if (against == "float32") {
    if (options.precision == Precision::kFloat32)
      throw UsageError{"--against float32 holds another precision against it: give --precision bf16 too"};
    options.precision = Precision::kFloat32;
    return side.With({"its float32 run", false, options});
  }
  if (against == "unoptimised")
    options.optimize = false;
  else
    options.provider = against;
  return side.With({against == "unoptimised" ? "itself unoptimised" : Cat("itself on ", against), false, options});
}

int Run(const Arguments& arguments) {
  CompareOptions options;
  options.tolerance = {arguments.Number("rtol", 1e-3), arguments.Number("atol", 1e-5)};
  options.k = arguments.Int("top-k", 5, 1, 1000000);
  options.always_trace = arguments.Has("layers");
  Request request = ReadRequest(arguments);
  const std::string& path = arguments.positions()[0];
  Side side = Side::Open(path, {path, false, SessionOptionsFrom(arguments)});
  bool two_sides = !request.other.empty() || arguments.Has("against");
  std::vector<Sample> samples = GatherSamples(request, side, arguments, two_sides);

  Progress progress("sample", static_cast<int64_t>(samples.size()));
  options.progress = [&](size_t done, const std::string& name) { progress.At(static_cast<int64_t>(done), name); };

  std::optional<Side> other;
  if (two_sides) other = OtherSide(request, side, arguments);
  NameTrust trust = request.other.empty() ? NameTrust::kSameModel : NameTrust::kHints;
  Comparison comparison =
      other ? CompareSides(side, *other, trust, samples, options) : CompareWithRecordings(side, samples, options);

  if (arguments.Has("save-worst"))
    SaveWorst(arguments.Get("save-worst"), comparison, samples, side, other ? &*other : nullptr);
  if (arguments.Has("html")) {
    AddFindings(side.original(), path, comparison);
    AtomicFile page(arguments.Get("html"));
    page.Write(ToHtml(comparison));
    page.Commit();
  }
  if (arguments.json())
    PrintJson(ToJson(comparison));
  else
    PrintForPeople(comparison, arguments.Has("layers"));
  return comparison.within() ? kGood : kAnswerIsNo;
}

}  // namespace

extern const Command command_compare;
constinit const Command command_compare = {
    .name = "compare",
    .group = Group::kRun,
    .summary = "Hold a model's answers against recorded ones, another model, or float64",
    .details =
        "Runs the model on recorded inputs and says how far each output is from its recording, from another model's, "
        "or "
        "from the same model's run in another way; the last two also on inputs that are made up (zeros, ones, large, "
        "tiny, denormal, constant, another order of the batch). Two values are equal when |a - b| <= atol + rtol * "
        "|b|; "
        "NaN equals only NaN; integers, bools and strings must be equal exactly. A complex recording is held against a "
        "real output whose last dimension is 2. Where answers differ, the first layer that goes wrong is named.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
