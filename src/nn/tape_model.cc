#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/version.h"
#include "graph/editor.h"
#include "nn/tape.h"
#include "onnx/ir_version.h"
#include "onnx/schema.h"

namespace ferry {
namespace {

constexpr size_t kAlwaysFolded = size_t{1} << 16;  // bytes

// Not everything that is constant should be stored: a tensor of zeros as large as an image is better made while
// running.
bool PaysToFold(const std::vector<const Tensor*>& results, const std::vector<const Tensor*>& inputs) {
  size_t after = 0, before = 0;
  for (const Tensor* tensor : results) after += tensor->bytes();
  for (const Tensor* tensor : inputs) before += tensor->bytes();
  return after <= std::max(kAlwaysFolded, before + before / 2);
}

std::vector<OpsetImport> ImportsOf(const Graph& graph) {
  std::vector<OpsetImport> imports = {{.domain = "", .version = NewestOpset("")}};
  for (const Node& node : graph.nodes) {
    bool known = std::any_of(imports.begin(), imports.end(), [&](const OpsetImport& import) {
      return CanonicalDomain(import.domain) == CanonicalDomain(node.domain);
    });
    if (!known) imports.push_back({.domain = node.domain, .version = NewestOpset(node.domain)});
  }
  return imports;
}

// The value of an int64 scalar or list whose every element follows from shapes.
std::optional<Tensor> KnownInts(const ValueFacts* facts) {
  if (!facts || !facts->elements || facts->type.dtype != DType::kInt64 || !facts->type.has_rank()) return {};
  std::vector<int64_t> values;
  for (const Dim& dim : *facts->elements) {
    if (!dim.known()) return {};
    values.push_back(*dim.value);
  }
  Tensor list = Tensor::FromVector<int64_t>(values);
  return facts->type.shape->empty() ? list.Reshaped({}) : list;
}

// The sizes of a Reshape as a constant: 0 where a size is the data's own at that axis, -1 for one that is open
// otherwise.
std::optional<Tensor> ReshapeSizes(const Node& node, const GraphFacts& facts) {
  const ValueFacts *data = facts.Find(node.inputs[0]), *sizes = facts.Find(node.inputs[1]);
  if (!data || !data->type.has_rank() || !sizes || !sizes->elements || node.Int("allowzero", 0) != 0) return {};
  std::vector<int64_t> values;
  for (size_t axis = 0; axis < sizes->elements->size(); ++axis) {
    const Dim& dim = (*sizes->elements)[axis];
    if (dim.known() && *dim.value == 0) return {};
    bool same = axis < data->type.shape->size() && SameDim(dim, (*data->type.shape)[axis]);
    values.push_back(dim.known() ? *dim.value : same ? 0 : -1);
  }
  if (std::count(values.begin(), values.end(), -1) > 1) return {};
  return Tensor::FromVector<int64_t>(values);
}

// Computing with sizes that are known leaves the graph; what is left says only what is open.
void SimplifyShapes(Graph& graph, const GraphFacts& facts) {
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    bool is_output = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                 [&](const ValueInfo& output) { return output.name == node.outputs[0]; });
    std::optional<Tensor> known = node.outputs.size() == 1 ? KnownInts(facts.Find(node.outputs[0])) : std::nullopt;
    if (known && !is_output) {
      graph.initializers.push_back(MakeStored(node.outputs[0], std::move(*known)));
      continue;
    }
    if (node.op_type == "Reshape" && !graph.FindInitializer(node.inputs[1])) {
      if (std::optional<Tensor> sizes = ReshapeSizes(node, facts)) {
        node.inputs[1] = Cat(node.outputs[0], "_shape");
        graph.initializers.push_back(MakeStored(node.inputs[1], std::move(*sizes)));
      }
    }
    kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
}

}  // namespace

void Tape::AddInputs(Graph& graph) const {
  std::map<std::string, int64_t> sizes;
  for (const Slot& slot : slots_) {
    if (slot.kind != Slot::Kind::kInput) continue;
    ValueInfo input{.name = slot.name, .type = slot.type};
    if (auto axes = dynamic_.find(slot.name); axes != dynamic_.end()) {
      for (const auto& [axis, dimension] : axes->second) {
        Dim& dim = (*input.type.shape)[static_cast<size_t>(axis)];
        auto [known, is_new] = sizes.emplace(dimension, *dim.value);
        Require(known->second == *dim.value, "dimension '", Printable(dimension), "' is ", known->second,
                " of one input and ", *dim.value, " of '", Printable(slot.name), "': give them two names");
        dim = Dim::Named(dimension);
      }
    }
    graph.inputs.push_back(std::move(input));
  }
}

void Tape::AddSteps(Graph& graph, bool fold) const {
  for (const Slot& slot : slots_)
    if (slot.kind == Slot::Kind::kParameter || slot.kind == Slot::Kind::kConstant)
      graph.initializers.push_back(MakeStored(slot.name, *slot.constant));
  for (const Step& step : nodes_) {
    std::vector<const Tensor*> results, inputs;
    for (Id id : step.outputs)
      if (At(id).constant) results.push_back(&*At(id).constant);
    for (Id id : step.inputs)
      if (id != kOmitted && At(id).constant) inputs.push_back(&*At(id).constant);
    bool folds = fold && !step.varies && results.size() == step.outputs.size() && PaysToFold(results, inputs);
    if (!folds) {
      graph.nodes.push_back(step.node);
      continue;
    }
    for (Id id : step.outputs) graph.initializers.push_back(MakeStored(At(id).name, *At(id).constant));
  }
}

// An output that is no node's own result (an input, a constant, an output already) becomes one by an Identity.
void Tape::AddOutputs(Graph& graph) const {
  std::unordered_map<std::string, std::string> renamed;
  for (const Output& output : outputs_) {
    const Slot& slot = At(output.id);
    bool made_by_node = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
      return std::find(node.outputs.begin(), node.outputs.end(), slot.name) != node.outputs.end();
    });
    if (!made_by_node || !renamed.emplace(slot.name, output.name).second) {
      Node identity;
      identity.name = Cat("/Identity_", output.name);
      identity.op_type = "Identity";
      identity.inputs = {slot.name};
      identity.outputs = {output.name};
      graph.nodes.push_back(std::move(identity));
    }
    graph.outputs.push_back({.name = output.name});
  }
  for (Node& node : graph.nodes)
    for (auto* names : {&node.inputs, &node.outputs})
      for (std::string& name : *names)
        if (auto it = renamed.find(name); it != renamed.end()) name = it->second;
}

void Tape::DescribeOutputs(Graph& graph, const GraphFacts& facts, std::vector<std::string>& warnings) const {
  for (ValueInfo& output : graph.outputs) {
    const Slot& slot = At(
        std::find_if(outputs_.begin(), outputs_.end(), [&](const Output& one) { return one.name == output.name; })->id);
    const ValueFacts* inferred = facts.Find(output.name);
    output.type = inferred && inferred->type.known() ? inferred->type : slot.type;
    if (!slot.type.is_tensor() || !slot.type.has_rank()) continue;
    if (!output.type.has_rank()) output.type.shape = SymbolicShape(slot.type.shape->size());
    auto wishes = dynamic_.find(output.name);
    for (size_t axis = 0; axis < output.type.shape->size(); ++axis) {
      Dim& dim = (*output.type.shape)[axis];
      std::string wish;
      if (wishes != dynamic_.end())
        if (auto it = wishes->second.find(static_cast<int64_t>(axis)); it != wishes->second.end()) wish = it->second;
      if (dim.unknown()) dim = Dim::Named(wish.empty() ? Cat(output.name, "_dim_", axis) : wish);
      if (wish.empty() || dim.symbol == wish) continue;
      warnings.push_back(dim.known() ? Cat("axis ", axis, " of output '", output.name, "' was asked to be dynamic ('",
                                           wish, "'), but it is always ", *dim.value)
                                     : Cat("axis ", axis, " of output '", output.name, "' is called '", dim.symbol,
                                           "', as the size it has is called, and not '", wish, "'"));
    }
  }
}

void Tape::WarnOfUnusedInputs(const Graph& graph, std::vector<std::string>& warnings) const {
  for (const ValueInfo& input : graph.inputs) {
    bool used = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
      return std::find(node.inputs.begin(), node.inputs.end(), input.name) != node.inputs.end();
    });
    if (!used)
      warnings.push_back(Cat("input '", input.name, "' has no influence on the outputs of the exported model"));
  }
}

Tape::Traced Tape::ToModel(bool fold) const {
  Require(!outputs_.empty(), "the network gave no outputs");
  Traced traced;
  Model& model = traced.model;
  model.has_graph = true;
  model.graph.name = "main_graph";
  model.producer_name = "ferry";
  model.producer_version = kVersion;
  AddInputs(model.graph);
  AddSteps(model.graph, fold);
  AddOutputs(model.graph);
  GraphFacts facts = InferGraph(model.graph, {});
  if (fold) SimplifyShapes(model.graph, facts);
  DropUnused(model.graph);
  DescribeOutputs(model.graph, facts, traced.warnings);
  WarnOfUnusedInputs(model.graph, traced.warnings);
  model.opsets = ImportsOf(model.graph);
  for (const OpsetImport& import : model.opsets)
    model.ir_version = std::max(model.ir_version, IrVersionOfOpset(import.domain, import.version));
  return traced;
}

}  // namespace ferry
