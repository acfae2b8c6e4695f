#include "convert/quantize/quantize.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "onnx/reader.h"
#include "onnx/writer.h"

namespace ferry::cli {
namespace {

using namespace quantize;

constexpr Position kPositions[] = {kModelPosition};

constexpr Option kOptions[] = {
    {.name = "output",
     .letter = 'o',
     .value = "OUT.onnx",
     .help = "where to write the model",
     .completes = Completes::kModel,
     .required = true},
    {.name = "data",
     .value = "FILE.npz",
     .help = "samples to find ranges with, inputs by name or in0, in1 …, or a folder of them; every fourth is kept for "
             "the proof",
     .completes = Completes::kFile,
     .repeated = true},
    {.name = "test",
     .value = "FILE.npz",
     .help = "samples for the proof instead, with 'labels' if there are any",
     .completes = Completes::kFile,
     .repeated = true},
    {.name = "form",
     .value = "FORM",
     .help = "usually int8: static or dynamic, layer by layer, as the data prefers",
     .words = "int8 static dynamic weights weights4 weights8 float16 fp16 bfloat16 bf16"},
    {.name = "for",
     .value = "READER",
     .help = "whose conventions to follow: types, zero points, biases (usually cpu)",
     .words = "cpu onnxruntime tensorrt tflite"},
    {.name = "budget",
     .value = "LOSS",
     .help = "what may be lost: top1=0.5%, agree=1%, cosine=0.999, max-rel=0.01 or snr=30; the fewest layers that this "
             "takes stay in higher precision"},
    {.name = "ranges",
     .value = "HOW",
     .help = "how ranges of activations are found (usually each is tried)",
     .words = "best minmax percentile entropy mse"},
    {.name = "percentile", .value = "P", .help = "of numbers that percentile ranges hold (usually 99.999)"},
    {.name = "bits", .value = "N", .help = "of weights with --form weights", .words = "4 8"},
    {.name = "block",
     .value = "N",
     .help = "weights that share a scale with --form weights; 0: a channel (usually 32)"},
    {.name = "method",
     .value = "HOW",
     .help =
         "how weights get their codes: nearest, ranges searched by their error, or GPTQ (usually the best that fits)",
     .words = "best nearest search gptq"},
    {.name = "standard", .help = "blocks as the standard writes them (DequantizeLinear), not MatMulNBits"},
    {.name = "qoperator", .help = "QLinearConv and QLinearMatMul instead of QuantizeLinear and DequantizeLinear"},
    {.name = "symmetric", .help = "zero points of activations are 0"},
    {.name = "activations", .value = "TYPE", .help = "of activations", .words = "uint8 int8"},
    {.name = "per-tensor", .help = "one scale for a whole weight instead of one for each channel"},
    {.name = "keep", .value = "NODE", .help = "leave this node as it is", .repeated = true},
    {.name = "only", .value = "OPERATOR", .help = "quantise nodes of this operator only", .repeated = true},
    {.name = "half-io", .help = "with --form float16: inputs and outputs of the model too"},
    {.name = "plain", .help = "without bias correction, SmoothQuant, equalisation and rounding by second order"},
    {.name = "report", .value = "FILE.html", .help = "write the report as a page", .completes = Completes::kFile},
    kThreadsOption,
};

constexpr Example kExamples[] = {
    {"ferry quantize model.onnx -o int8.onnx --data samples.npz", "eight bits for this CPU"},
    {"ferry quantize model.onnx -o trt.onnx --data samples/ --for tensorrt", "as TensorRT wants it"},
    {"ferry quantize model.onnx -o small.onnx --data samples.npz --form weights --bits 4", "weights in 4 bits"},
    {"ferry quantize model.onnx -o int8.onnx --data labelled.npz --budget top1=0.5%", "no more than this is lost"},
    {"ferry quantize model.onnx -o half.onnx --form float16", "half the size"},
};

template <class Enum, size_t kCount>
Enum Word(const Arguments& arguments, std::string_view option, const char* const (&words)[kCount], Enum otherwise) {
  const std::string word = arguments.Get(option);
  for (size_t i = 0; i < kCount; ++i)
    if (word == words[i]) return static_cast<Enum>(i);
  return otherwise;
}

QuantizeOptions OptionsFrom(const Arguments& arguments) {
  static constexpr const char* kReaders[] = {"cpu", "onnxruntime", "tensorrt", "tflite"};
  static constexpr const char* kRanges[] = {"best", "minmax", "percentile", "entropy", "mse"};
  static constexpr const char* kMethods[] = {"best", "nearest", "search", "gptq"};
  QuantizeOptions options;
  SetForm(options, arguments.Get("form", "int8"),
          arguments.Has("bits") ? std::optional(static_cast<int>(arguments.Int("bits", 8, 4, 8))) : std::nullopt);
  options.conventions = Conventions::For(Word(arguments, "for", kReaders, Reader::kCpu));
  options.ranges = Word(arguments, "ranges", kRanges, RangeMethod::kBest);
  options.weights = Word(arguments, "method", kMethods, WeightMethod::kBest);
  if (arguments.Has("symmetric")) options.conventions.symmetric_activations = true;
  if (arguments.Has("activations")) options.conventions.signed_activations = arguments.Get("activations") == "int8";
  if (arguments.Has("per-tensor")) options.conventions.per_channel = false;
  if (options.conventions.reader == Reader::kTensorRt && !options.conventions.signed_activations)
    throw UsageError{"TensorRT reads int8 activations only"};
  options.data = arguments.All("data");
  options.test = arguments.All("test");
  options.percentile = arguments.Number("percentile", 99.999);
  options.block = arguments.Int("block", 32, 0, 4096);
  options.standard_blocks = arguments.Has("standard");
  options.qoperator = arguments.Has("qoperator");
  if (options.qoperator) options.conventions.whole_bias = true;
  options.keep = arguments.All("keep");
  options.operators = arguments.All("only");
  options.half_inputs = arguments.Has("half-io");
  options.methods = !arguments.Has("plain");
  options.threads = static_cast<int>(arguments.Int("threads", 0, 0, 1024));
  if (arguments.Has("budget")) options.budget = ParseBudget(arguments.Get("budget"));
  const Reader reader = options.conventions.reader;
  options.smallest =
      !arguments.Has("form") && !options.qoperator && (reader == Reader::kCpu || reader == Reader::kOnnxRuntime);
  return options;
}

int Run(const Arguments& arguments) {
  QuantizeOptions options = OptionsFrom(arguments);
  const std::string out = arguments.Get("output");
  QuantizedModel made;
  {
    std::unique_ptr<Progress> progress;
    std::string shown;
    options.progress = [&](const char* what, int64_t done, int64_t total) {
      if (shown != what) progress = std::make_unique<Progress>(shown = what, total);
      progress->At(done);
    };
    made = QuantizeModel(ReadModel(arguments.positions()[0]), options);
  }
  // What is slower, or does not hold, is said before there is a file.
  if (!arguments.json()) Print(ToText(made.report));
  WriteModel(made.model, out);
  if (arguments.Has("report")) {
    AtomicFile file(arguments.Get("report"));
    file.Write(ToHtml(made.report));
    file.Commit();
  }
  if (arguments.json())
    PrintJson(ToJson(made.report).Set("output", out));
  else
    Print(Cat(Printable(out), " is written\n"));
  return made.report.holds ? kGood : kAnswerIsNo;
}

}  // namespace

extern const Command command_quantize;
constinit const Command command_quantize = {
    .name = "quantize",
    .group = Group::kMake,
    .summary = "Write a model in fewer bits, and measure what that costs",
    .details =
        "Products and convolutions in eight bits, weights in blocks of four or eight, or numbers of half precision; "
        "what a "
        "reader of the file expects is chosen with --for. Ranges come from one pass over the data. Layers that cannot "
        "bear "
        "it stay in higher precision, and the report says which and why. The result is run against the float model on "
        "samples that were not used to choose. Exit status 1: the budget does not hold; the nearest that was reached "
        "is "
        "written all the same.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
