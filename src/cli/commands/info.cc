#include <algorithm>

#include "base/error.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "doctor/summary.h"
#include "onnx/reader.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {kModelPosition};
constexpr Option kOptions[] = {kDimOption};
constexpr Example kExamples[] = {
    {"ferry info model.onnx", "what is in the file?"},
    {"ferry info model.onnx --dim batch=8", "memory and multiply-adds for a batch of 8"},
};

constexpr size_t kLongestName = 60;

Json ToJson(const std::vector<ValueInfo>& values) {
  Json list = Json::Array{};
  for (const ValueInfo& value : values) {
    Json entry = Json().Set("name", value.name).Set("type", OnnxTypeName(value.type));
    if (value.type.shape) {
      Json shape = Json::Array{};
      for (const Dim& dim : *value.type.shape)
        shape.Add(dim.known() ? Json(*dim.value) : dim.named() ? Json(dim.symbol) : Json());
      entry.Set("shape", std::move(shape));
    }
    list.Add(std::move(entry));
  }
  return list;
}

Json ToJson(const Model& model, const ModelSummary& summary) {
  Json json, opsets = Json::Object{}, operators = Json::Object{}, dimensions = Json::Object{};
  for (const OpsetImport& opset : model.opsets)
    opsets.Set(opset.domain.empty() ? "ai.onnx" : opset.domain, opset.version);
  for (const auto& [name, count] : summary.operators) operators.Set(name, count);
  for (const auto& [name, size] : summary.dimensions) dimensions.Set(name, size);
  json.Set("name", model.graph.name)
      .Set("producer", model.producer_name)
      .Set("producer_version", model.producer_version);
  json.Set("ir_version", model.ir_version).Set("opsets", std::move(opsets));
  json.Set("inputs", ToJson(summary.inputs)).Set("outputs", ToJson(summary.outputs));
  json.Set("nodes", summary.nodes).Set("operators", std::move(operators));
  json.Set("parameters", summary.parameters).Set("parameter_bytes", summary.parameter_bytes);
  json.Set("dimensions", std::move(dimensions));
  json.Set("activation_bytes", summary.activation_bytes ? Json(*summary.activation_bytes) : Json());
  json.Set("multiply_adds", summary.multiply_adds ? Json(*summary.multiply_adds) : Json());
  if (!summary.unknown_because.empty()) json.Set("unknown_because", summary.unknown_because);
  return json;
}

// Names padded to the longest, so that types stand below each other too.
void AddValues(Columns& columns, std::string_view title, const std::vector<ValueInfo>& values, size_t name_width) {
  for (size_t i = 0; i < values.size(); ++i) {
    std::string name = Printable(values[i].name, kLongestName);
    name.resize(std::max(name.size(), name_width), ' ');
    columns.Add({i == 0 ? Cat(title, values.size() == 1 ? "" : "s") : "", Cat(name, "  ", values[i].type)});
  }
}

size_t LongestName(const ModelSummary& summary) {
  size_t longest = 0;
  for (const std::vector<ValueInfo>* values : {&summary.inputs, &summary.outputs})
    for (const ValueInfo& value : *values) longest = std::max(longest, Printable(value.name, kLongestName).size());
  return longest;
}

std::string OperatorsLine(const ModelSummary& summary) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : summary.operators)
    parts.push_back(count == 1 ? Printable(name) : Cat(Printable(name), " ×", count));
  return Join(parts, ", ");
}

std::string ForDimensions(const ModelSummary& summary) {
  std::vector<std::string> parts;
  for (const auto& [name, size] : summary.dimensions) parts.push_back(Cat(Printable(name), "=", size));
  return parts.empty() ? "" : Cat("  (", Join(parts, ", "), ")");
}

std::string MissingLine(const ModelSummary& summary) {
  std::vector<std::string> missing;
  if (!summary.activation_bytes) missing.push_back("run memory");
  if (!summary.multiply_adds) missing.push_back("multiply-adds");
  return Cat(Join(missing, " and "), ": ", Printable(summary.unknown_because, 300));
}

std::string ToLines(const Model& model, const ModelSummary& summary) {
  std::vector<std::string> opsets;
  for (const OpsetImport& opset : model.opsets)
    opsets.push_back(Cat(opset.domain.empty() ? "ai.onnx" : Printable(opset.domain), " ", opset.version));
  Columns lines({}, "");
  lines.Add({"model", Printable(model.graph.name)});
  if (!model.producer_name.empty())
    lines.Add({"made by", Printable(Cat(model.producer_name, " ", model.producer_version))});
  lines.Add({"format", Cat("ONNX IR ", model.ir_version, ", opset ", Join(opsets, ", "))});
  AddValues(lines, "input", summary.inputs, LongestName(summary));
  AddValues(lines, "output", summary.outputs, LongestName(summary));
  lines.Add({"nodes", Cat(summary.nodes, "  (", OperatorsLine(summary), ")")});
  lines.Add({"parameters", Cat(HumanCount(static_cast<double>(summary.parameters)), "  (",
                               HumanBytes(static_cast<double>(summary.parameter_bytes)), ")")});
  std::string sizes = ForDimensions(summary);
  if (summary.activation_bytes)
    lines.Add({"run memory", Cat(HumanBytes(static_cast<double>(*summary.activation_bytes)), sizes)});
  if (summary.multiply_adds) lines.Add({"multiply-adds", Cat(HumanCount(*summary.multiply_adds), sizes)});
  if (!summary.unknown_because.empty()) lines.Add({"not known", MissingLine(summary)});
  return lines.Text();
}

// A model whose external data is not there can still be described.
Model ReadForInfo(const std::string& path) {
  try {
    return ReadModel(path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInvalidModel) throw;
    return ReadModel(path, {.load_external = false, .folder = {}});
  }
}

int Run(const Arguments& arguments) {
  Model model = ReadForInfo(arguments.positions()[0]);
  ModelSummary summary = Summarize(model, DimensionsFrom(arguments));
  if (arguments.json())
    PrintJson(ToJson(model, summary));
  else
    Print(ToLines(model, summary));
  return kGood;
}

}  // namespace

extern const Command command_info;
constinit const Command command_info = {
    .name = "info",
    .group = Group::kUnderstand,
    .summary = "Show what is in a model: inputs, outputs, operators, size and cost",
    .details =
        "Memory is what one run needs beside the weights. Multiply-adds are those of convolutions, matrix products, "
        "attention and recurrences. Both are for the sizes of named dimensions, 1 unless --dim says otherwise.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
