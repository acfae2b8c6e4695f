// The model as a whole: versions, imports, metadata, training.
#include <set>

#include "base/text.h"
#include "onnx/checker/context.h"
#include "onnx/ir_version.h"
#include "onnx/schema.h"

namespace ferry::checker {
namespace {

std::string ShownDomain(std::string_view domain) { return domain.empty() ? "ai.onnx" : Printable(domain); }

std::unordered_set<std::string_view> OutputNames(const std::optional<Graph>& graph) {
  std::unordered_set<std::string_view> names;
  if (!graph) return names;
  for (const ValueInfo& output : graph->outputs) names.insert(output.name);
  return names;
}

void CheckBinding(const Metadata& binding, const std::unordered_set<std::string_view>& initializers,
                  const std::unordered_set<std::string_view>& outputs, std::string_view graph, const Place& place,
                  Report& report) {
  std::unordered_set<std::string_view> seen;
  for (const auto& [key, value] : binding) {
    Place at = place;
    at.value = key;
    if (!seen.insert(key).second) report.Add("training.binding", at, "is bound twice");
    if (!initializers.count(key)) report.Add("training.binding", at, "is bound, but is no initializer");
    if (!outputs.count(value))
      report.Add("training.binding", at,
                 Cat("takes its value from '", Printable(value), "', which is no output of the ", graph, " graph"));
  }
}

void CheckTrainingGraph(const std::optional<Graph>& graph, std::string where, const std::vector<OpsetImport>& opsets,
                        const GraphContext& main, ModelContext& context) {
  if (!graph) return;
  Scope scope(graph->nodes, opsets, main.scope);
  GraphContext inner{.model = context, .where = std::move(where), .opsets = opsets, .outer = &main, .scope = &scope};
  CheckGraph(*graph, inner);
}

}  // namespace

void CheckMetadata(const Metadata& metadata, std::string_view rule, const Place& place, Report& report) {
  std::unordered_set<std::string_view> keys;
  for (const auto& [key, value] : metadata) {
    if (keys.insert(key).second) continue;
    Place at = place;
    at.value = key;
    report.Add(rule, at, "comes twice in the metadata");
  }
}

void CheckOpsets(const std::vector<OpsetImport>& opsets, const Place& place, Report& report) {
  std::set<std::string_view> seen;
  for (const OpsetImport& import : opsets) {
    Place at = place;
    at.value = ShownDomain(import.domain);
    if (!seen.insert(CanonicalDomain(import.domain)).second)
      report.Add("model.opset-duplicate", at, "the domain is imported more than once");
    int64_t newest = NewestOpset(import.domain);
    if (import.version < 1)
      report.Add("model.opset-future", at, Cat("opset ", import.version, " does not exist"));
    else if (newest > 0 && import.version > newest)
      report.Add("model.opset-future", at,
                 Cat("opset ", import.version, " is imported; the newest known here is ", newest));
  }
}

void CheckModelRules(ModelContext& context) {
  const Model& model = context.model;
  Report& report = context.report;
  if (model.ir_version <= 0)
    report.Add("model.ir-version", {}, "the model has no IR version");
  else if (model.ir_version > kNewestIrVersion)
    report.Add("model.ir-version", {},
               Cat("IR version ", model.ir_version, " is newer than ", kNewestIrVersion, ", the newest known here"));
  CheckMetadata(model.metadata, "model.metadata-duplicate", {}, report);
  if (model.ir_version >= 3 && model.opsets.empty())
    report.Add("model.opset-missing", {}, "the model imports no opset");
  if (model.ir_version > 0 && model.ir_version < 3 && !model.opsets.empty())
    report.Add("model.opset-missing", {},
               Cat("opsets are imported, which IR version ", model.ir_version, " does not know"));
  CheckOpsets(model.opsets, {}, report);
  for (const OpsetImport& import : model.opsets) {
    int64_t needed = IrVersionOfOpset(import.domain, import.version);
    if (model.ir_version >= 3 && needed > model.ir_version)
      report.Add(
          "model.opset-and-ir", {.value = ShownDomain(import.domain)},
          Cat("opset ", import.version, " came with IR version ", needed, ", the model says ", model.ir_version));
  }
  if (!model.has_graph) report.Add("graph.missing", {}, "the model has no graph");
}

void CheckTraining(ModelContext& context) {
  const Model& model = context.model;
  if (model.training.empty()) return;
  Scope scope(model.graph.nodes, model.opsets, nullptr);
  GraphContext main{.model = context, .opsets = model.opsets, .scope = &scope};
  std::unordered_set<std::string_view> initializers;
  for (const StoredTensor& tensor : model.graph.initializers) initializers.insert(tensor.name);
  for (const auto& tensor : model.graph.sparse_initializers) initializers.insert(tensor.values.name);
  main.names = initializers;
  for (const ValueInfo& input : model.graph.inputs) main.names.insert(input.name);
  for (size_t i = 0; i < model.training.size(); ++i) {
    const TrainingInfo& info = model.training[i];
    std::string where = Cat("training_info ", i);
    CheckTrainingGraph(info.initialization, Cat("initialization of ", where), model.opsets, main, context);
    CheckTrainingGraph(info.algorithm, Cat("algorithm of ", where), model.opsets, main, context);
    std::unordered_set<std::string_view> bound = initializers;
    if (info.algorithm)
      for (const StoredTensor& tensor : info.algorithm->initializers) bound.insert(tensor.name);
    Place place{.graph = where};
    CheckBinding(info.initialization_binding, bound, OutputNames(info.initialization), "initialization", place,
                 context.report);
    CheckBinding(info.update_binding, bound, OutputNames(info.algorithm), "algorithm", place, context.report);
  }
}

}  // namespace ferry::checker
