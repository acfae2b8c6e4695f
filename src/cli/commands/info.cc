#include <algorithm>
#include <set>

#include "base/error.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "measure/graph_drawing.h"
#include "measure/plan_summary.h"
#include "measure/summary.h"
#include "onnx/reader.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {kModelPosition};
constexpr Option kOptions[] = {
    kDimOption,
    {.name = "layers", .help = "list every layer with its shapes, parameters and multiply-adds"},
    {.name = "graph", .help = "draw the graph: a line per node, a track per value"},
    {.name = "plan", .help = "list the steps of a run: who takes each by which algorithm, and where results lie"},
    kProviderOption,
    kExactOption,
    kPrecisionOption,
};
constexpr Example kExamples[] = {
    {"ferry info model.onnx", "what is in the file?"},
    {"ferry info model.onnx --dim batch=8", "memory and multiply-adds for a batch of 8"},
    {"ferry info model.onnx --layers", "which layer costs what?"},
    {"ferry info model.onnx --graph", "what follows what?"},
    {"ferry info model.onnx --plan", "what will run where, and in how much memory?"},
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

Json OrNull(const auto& number) { return number ? Json(*number) : Json(); }

Json LayersJson(const ModelSummary& summary) {
  Json layers = Json::Array{};
  for (const LayerInfo& layer : summary.layers) {
    Json entry;
    entry.Set("name", layer.name).Set("op", layer.op).Set("inputs", Json::List(layer.inputs));
    entry.Set("outputs", ToJson(layer.outputs)).Set("parameters", layer.parameters);
    entry.Set("multiply_adds", OrNull(layer.multiply_adds)).Set("output_bytes", OrNull(layer.output_bytes));
    layers.Add(std::move(entry));
  }
  return layers;
}

Json CostsJson(const ModelSummary& summary) {
  Json costs = Json::Array{};
  for (const OperatorCost& cost : CostByOperator(summary.layers))
    costs.Add(Json()
                  .Set("op", cost.op)
                  .Set("nodes", cost.nodes)
                  .Set("parameters", cost.parameters)
                  .Set("multiply_adds", OrNull(cost.multiply_adds))
                  .Set("output_bytes", OrNull(cost.output_bytes)));
  return costs;
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
  if (!summary.quantized_weights.empty()) {
    Json by_bits;
    for (const auto& [bits, count] : summary.quantized_weights) by_bits.Set(Cat(bits), count);
    json.Set("quantized_weights", std::move(by_bits));
  }
  json.Set("dimensions", std::move(dimensions));
  json.Set("activation_bytes", OrNull(summary.activation_bytes)).Set("multiply_adds", OrNull(summary.multiply_adds));
  json.Set("by_operator", CostsJson(summary));
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

std::string Counted(std::optional<double> count) { return !count ? "?" : *count > 0 ? HumanCount(*count) : ""; }
std::string Counted(int64_t count) { return count > 0 ? HumanCount(static_cast<double>(count)) : ""; }
std::string Bytes(std::optional<int64_t> bytes) { return bytes ? HumanBytes(static_cast<double>(*bytes)) : "?"; }

std::string OperatorTable(const ModelSummary& summary) {
  Columns columns({false, true, true, true, true}, "");
  columns.Add({"operator", "nodes", "parameters", "multiply-adds", "results"});
  for (const OperatorCost& cost : CostByOperator(summary.layers))
    columns.Add({Printable(cost.op), Cat(cost.nodes), Counted(cost.parameters), Counted(cost.multiply_adds),
                 Bytes(cost.output_bytes)});
  return columns.Text();
}

std::string LayerTable(const ModelSummary& summary) {
  Columns columns({false, false, true, true, true, false}, "");
  columns.Add({"layer", "operator", "parameters", "multiply-adds", "results", "shapes"});
  for (const LayerInfo& layer : summary.layers) {
    std::vector<std::string> types;
    for (const ValueInfo& output : layer.outputs) types.push_back(ToText(output.type));
    columns.Add({Printable(layer.name, kLongestName), Printable(layer.op), Counted(layer.parameters),
                 Counted(layer.multiply_adds), Bytes(layer.output_bytes), Join(types, ", ")});
  }
  return columns.Text();
}

std::string ForDimensions(const ModelSummary& summary) {
  std::vector<std::string> parts;
  for (const auto& [name, size] : summary.dimensions) parts.push_back(Cat(Printable(name), "=", size));
  return parts.empty() ? "" : Cat("  (", Join(parts, ", "), ")");
}

std::string MissingLine(const ModelSummary& summary) {
  std::vector<std::string> missing;
  if (!summary.activation_bytes) missing.push_back("activation peak");
  if (!summary.multiply_adds) missing.push_back("multiply-adds");
  std::set<std::string> offered;  // a first axis is a batch, which 1 suits
  for (const ValueInfo& input : summary.inputs)
    if (const auto& shape = input.type.shape)
      for (size_t axis = shape->size() > 1; axis < shape->size(); ++axis) offered.insert((*shape)[axis].symbol);
  std::string advice;
  for (const auto& [name, size] : summary.dimensions)
    if (size == 1 && offered.count(name) > 0) advice += Cat(" --dim ", Printable(name), "=320");
  return Cat(Join(missing, " and "), ": ", Printable(summary.unknown_because, 300),
             advice.empty() || !summary.layers.empty() ? "" : Cat("; sizes of 1 may not suit it, try", advice));
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
  for (const auto& [bits, count] : summary.quantized_weights)
    lines.Add({"quantised", Cat(HumanCount(static_cast<double>(count)), " weights of ", bits, " bits")});
  std::string sizes = ForDimensions(summary);
  if (summary.activation_bytes)
    lines.Add({"activation peak", Cat(HumanBytes(static_cast<double>(*summary.activation_bytes)), sizes)});
  if (summary.multiply_adds) lines.Add({"multiply-adds", Cat(HumanCount(*summary.multiply_adds), sizes)});
  if (!summary.unknown_because.empty()) lines.Add({"not known", MissingLine(summary)});
  return lines.Text();
}

std::string PlaceText(const PlannedValue& value) {
  std::string text = value.place;
  if (value.offset) text += Cat(" +", *value.offset);
  return value.space == "host" ? text : Cat(text, " in ", value.space);
}

std::string PlanTable(const PlanSummary& plan) {
  Columns columns({false, false, false, false, false, true, false}, "");
  columns.Add({"step", "operator", "by", "algorithm", "result", "bytes", "where"});
  for (const PlannedStep& step : plan.steps) {
    const std::string name = step.node.empty() && !step.outputs.empty() ? step.outputs[0].name : step.node;
    std::vector<std::string> row = {Cat(std::string(2 * step.depth, ' '), Printable(name, kLongestName)),
                                    Printable(step.op), step.provider, step.algorithm};
    if (!step.outputs.empty()) {
      const PlannedValue& value = step.outputs[0];
      row.insert(row.end(), {value.type, value.bytes ? Cat(*value.bytes) : "?", PlaceText(value)});
    }
    columns.Add(std::move(row));
  }
  return columns.Text();
}

std::string PlanLines(const PlanSummary& plan) {
  Columns lines({}, "");
  std::vector<std::string> parts;
  for (const auto& [provider, steps] : plan.steps_by_provider) parts.push_back(Cat(steps, " by ", provider));
  lines.Add({"steps", Join(parts, ", ")});
  for (const auto& [space, bytes] : plan.arena_bytes)
    lines.Add({Cat("arena (", space, ")"), HumanBytes(static_cast<double>(bytes))});
  for (const auto& [space, bytes] : plan.weight_bytes)
    lines.Add({Cat("weights (", space, ")"), HumanBytes(static_cast<double>(bytes))});
  if (plan.dynamic_values > 0)
    lines.Add({"sized while running", Plural(static_cast<int64_t>(plan.dynamic_values), "value")});
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
  if (arguments.json()) {
    Json json = ToJson(model, summary);
    if (arguments.Has("layers")) json.Set("layers", LayersJson(summary));
    if (arguments.Has("plan"))
      json.Set("plan", ToJson(SummarizePlan(model, DimensionsFrom(arguments), SessionOptionsFrom(arguments))));
    PrintJson(json);
    return kGood;
  }
  Print(ToLines(model, summary));
  if (!summary.layers.empty()) Print(Cat("\n", OperatorTable(summary)));
  if (arguments.Has("layers")) Print(Cat("\n", LayerTable(summary)));
  if (arguments.Has("graph")) Print(Cat("\n", DrawGraph(summary)));
  if (arguments.Has("plan")) {
    const PlanSummary plan = SummarizePlan(model, DimensionsFrom(arguments), SessionOptionsFrom(arguments));
    Print(Cat("\n", PlanLines(plan), "\n", PlanTable(plan)));
  }
  return kGood;
}

}  // namespace

extern const Command command_info;
constinit const Command command_info = {
    .name = "info",
    .group = Group::kUnderstand,
    .summary = "Show what is in a model: inputs, outputs, operators, size and cost",
    .details =
        "The activation peak is the memory that one run needs beside the weights. Multiply-adds are those of "
        "convolutions, matrix products, attention and recurrences. Both are for the sizes of named dimensions, 1 "
        "unless "
        "--dim says otherwise. Layers are the model's nodes as they run, before they are rewritten for speed; "
        "the plan's steps are those after it.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
