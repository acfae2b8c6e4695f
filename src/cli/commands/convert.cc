#include "convert/convert.h"

#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "onnx/reader.h"
#include "onnx/writer.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {
    {.name = "MODEL", .help = "an .onnx file", .completes = Completes::kModel},
};

constexpr Option kOptions[] = {
    {.name = "opset", .value = "N", .help = "the opset of ai.onnx to convert to, 7 to 28", .required = true},
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
};

int Run(const Arguments& arguments) {
  constexpr int64_t kOldest = 7, kNewest = 28;
  int64_t target = arguments.Int("opset", kNewest, kOldest, kNewest);
  const std::string& path = arguments.positions()[0];
  std::string out = arguments.Get("output");
  Model model = ReadModel(path);
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
    .summary = "Write a model for an older or newer opset",
    .details =
        "Nodes take the form they have at the opset asked for; operators it lacks are written out in those it has. "
        "Where "
        "the meaning cannot be kept, the model is refused with the node and the reason. The result is checked by the "
        "standard before it is written. Functions of the model are written out when going down.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
