#include "convert/convert.h"

#include "base/text.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "convert/standard.h"
#include "measure/difference.h"
#include "measure/random_input.h"
#include "onnx/reader.h"
#include "onnx/writer.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {kModelPosition};

constexpr Option kOptions[] = {
    {.name = "opset", .value = "N", .help = "the opset of ai.onnx to convert to, 7 to 28"},
    {.name = "standard",
     .help = "write operators of ONNX Runtime (com.microsoft) in the standard's, proved on made-up inputs; without "
             "--opset at the model's own, or the first that has the words"},
    {.name = "unproved", .help = "with --standard: write the model also where it can't be run here"},
    kDimOption,
    {.name = "output",
     .letter = 'o',
     .value = "OUT.onnx",
     .help = "where to write the model",
     .completes = Completes::kModel,
     .required = true},
};

constexpr Example kExamples[] = {
    {"ferry convert model.onnx --opset 13 -o model13.onnx", "for a runtime that knows opsets up to 13"},
    {"ferry convert old.onnx --opset 21 -o new.onnx", "bring an old model up"},
    {"ferry convert optimised.onnx --standard -o plain.onnx",
     "what ONNX Runtime's optimiser wrote, for other runtimes"},
};

// How far apart the two are on inputs that are made up; throws where they differ.
double ProveSame(const Model& model, const Model& converted, const Arguments& arguments) {
  constexpr Tolerance kTolerance{.rtol = 1e-3, .atol = 1e-4, .integers = 1};
  // Rows that accuracy_level lets become bytes would hide what differs, and differ themselves.
  SessionOptions options;
  options.exact = true;
  auto before = Session::FromModel(model, options), after = Session::FromModel(converted, options);
  double largest = 0;
  for (uint64_t seed : {1, 2}) {
    const std::vector<NamedValue> inputs =
        MakeRandomInputs(*before, {.seed = seed, .dimensions = DimensionsFrom(arguments)});
    const std::vector<Value> expected = before->Run(inputs), got = after->Run(inputs);
    for (size_t i = 0; i < expected.size(); ++i) {
      const Difference difference = Compare(got[i], expected[i], kTolerance);
      if (!difference.within())
        Fail(ErrorCode::kUnsupported,
             "the standard's operators give other values, so that nothing was written: output '",
             Printable(before->outputs()[i].name), "': ", difference.Explain());
      largest = std::max(largest, difference.max_abs);
    }
  }
  return largest;
}

int RunStandard(const Arguments& arguments, const Model& model, std::optional<int64_t> target) {
  const std::string out = arguments.Get("output");
  const StandardModel standard = ToStandard(model, target);
  Json json = Json()
                  .Set("from", model.OpsetOf(""))
                  .Set("to", standard.model.OpsetOf(""))
                  .Set("replaced", standard.replaced)
                  .Set("left", Json::List(standard.left))
                  .Set("output", out);
  std::string proof = "not proved";
  if (!arguments.Has("unproved")) {
    const double largest = ProveSame(model, standard.model, arguments);
    proof = Cat("same outputs on made-up inputs, largest difference ", HumanNumber(largest));
    json.Set("largest_difference", largest);
  }
  WriteModel(standard.model, out);
  if (arguments.json()) {
    PrintJson(json);
    return kGood;
  }
  std::string text = Cat(Printable(out), ": opset ", standard.model.OpsetOf(""), ", ",
                         Plural(standard.replaced, "node"), " written in the standard's operators, ", proof, "\n");
  for (const std::string& name : standard.left)
    text += Cat("  left as it is, for the standard has no words for it: ", Printable(name), "\n");
  Print(text);
  return kGood;
}

int Run(const Arguments& arguments) {
  constexpr int64_t kOldest = 7, kNewest = 28;
  const bool is_standard = arguments.Has("standard");
  if (!arguments.Has("opset") && !is_standard) throw UsageError{"needs --opset N or --standard"};
  int64_t target = arguments.Int("opset", kNewest, kOldest, kNewest);
  const std::string& path = arguments.positions()[0];
  std::string out = arguments.Get("output");
  Model model = ReadModel(path);
  if (is_standard) return RunStandard(arguments, model, arguments.Has("opset") ? std::optional(target) : std::nullopt);
  Model converted = ConvertOpset(model, target);
  WriteModel(converted, out);
  if (arguments.json())
    PrintJson(Json()
                  .Set("from", model.OpsetOf(""))
                  .Set("to", target)
                  .Set("ir_version", converted.ir_version)
                  .Set("nodes_before", model.graph.nodes.size())
                  .Set("nodes_after", converted.graph.nodes.size())
                  .Set("output", out));
  else
    Print(Cat(Printable(out), ": opset ", model.OpsetOf(""), " → ", target, ", ",
              Plural(static_cast<int64_t>(converted.graph.nodes.size()), "node"), "\n"));
  return kGood;
}

}  // namespace

extern const Command command_convert;
constinit const Command command_convert = {
    .name = "convert",
    .group = Group::kMake,
    .summary = "Write a model for an older or newer opset, or in the standard's operators",
    .details =
        "Nodes take the form they have at the opset asked for; operators it lacks are written out in those it has. "
        "Where "
        "the meaning cannot be kept, the model is refused with the node and the reason. The result is checked by the "
        "standard before it is written. Functions of the model are written out when going down. With --standard, "
        "operators "
        "that only ONNX Runtime has are written in the standard's where it has the words; what is left is named.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
