#include "measure/summary.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "engine/make_plan.h"
#include "engine/prepare.h"
#include "engine/weight_cache.h"
#include "graph/scopes.h"
#include "measure/multiply_adds.h"
#include "measure/sized_inputs.h"
#include "ops/infer_graph.h"

namespace ferry {
namespace {

int64_t CountOf(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return 0;
  return count;
}

// Which input of the operator is weights of few bits; one beyond the last where none is.
size_t QuantizedInput(const Node& node) {
  constexpr std::pair<std::string_view, size_t> kInputs[] = {
      {"ConvInteger", 1}, {"DequantizeLinear", 0}, {"DynamicQuantizeMatMul", 1}, {"GatherBlockQuantized", 0},
      {"MatMulBnb4", 1},  {"MatMulInteger", 1},    {"MatMulIntegerToFloat", 1},  {"MatMulNBits", 1},
      {"QGemm", 3},       {"QLinearConv", 3},      {"QLinearMatMul", 3},
  };
  for (const auto& [name, input] : kInputs)
    if (node.op_type == name) return input;
  return node.inputs.size();
}

struct FewBits {
  int64_t bits = 0, count = 0;  // of no bits: these are not such weights
};

FewBits CountQuantized(const Node& node, const StoredTensor& weight) {
  if (!IsInteger(weight.dtype)) return {};
  const int64_t stored = BitWidth(weight.dtype), bits = node.Int("bits", stored);
  if (bits <= 0 || bits > stored) return {};
  int64_t count = CountOf(weight.dims);
  // Several to a byte, rows filled up to whole blocks.
  if (node.Has("K") && node.Has("N"))
    count = CountOf({node.Int("K", 0), node.Int("N", 0)});
  else if (count <= INT64_MAX / 8)
    count = count * stored / bits;
  return {bits, count};
}

class Counter {
 public:
  explicit Counter(ModelSummary& summary) : summary_(summary) {}

  void Visit(const Graph& graph) {
    for (const StoredTensor& initializer : graph.initializers) AddWeight(initializer);
    for (const StoredSparseTensor& sparse : graph.sparse_initializers) AddWeight(sparse.values);
    Visit(graph.nodes, &graph);
  }

  void Visit(const std::vector<Node>& nodes, const Graph* graph = nullptr) {
    for (const Node& node : nodes) {
      ++summary_.nodes;
      std::string_view domain = CanonicalDomain(node.domain);
      ++histogram_[domain.empty() ? node.op_type : Cat(domain, ".", node.op_type)];
      if (const Attribute* value = node.op_type == "Constant" ? node.Find("value") : nullptr)
        if (auto* stored = std::get_if<std::shared_ptr<StoredTensor>>(&value->held); stored && *stored)
          AddWeight(**stored);
      AddQuantized(node, graph);
      ForEachSubgraph(node, [&](const Graph& body) { Visit(body); });
    }
  }

  void Finish() {
    summary_.operators.assign(histogram_.begin(), histogram_.end());
    std::stable_sort(summary_.operators.begin(), summary_.operators.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
  }

 private:
  void AddWeight(const StoredTensor& tensor) {
    int64_t count = CountOf(tensor.dims);
    int64_t bits = BitWidth(tensor.dtype);
    if (IsFloating(tensor.dtype) || IsComplex(tensor.dtype)) summary_.parameters += count;
    summary_.parameter_bytes += count / 8 * bits + (count % 8 * bits + 7) / 8;
  }

  // Weights that a node reads as numbers of few bits, once for all its readers.
  void AddQuantized(const Node& node, const Graph* graph) {
    const size_t input = QuantizedInput(node);
    if (!graph || !node.HasInput(input)) return;
    const auto weight = std::find_if(graph->initializers.begin(), graph->initializers.end(),
                                     [&](const StoredTensor& tensor) { return tensor.name == node.inputs[input]; });
    if (weight == graph->initializers.end() || counted_.count(&*weight)) return;
    const FewBits few = CountQuantized(node, *weight);
    if (few.bits == 0) return;
    counted_.insert(&*weight);
    summary_.quantized_weights[few.bits] += few.count;
    summary_.parameters += few.count;
  }

  ModelSummary& summary_;
  std::map<std::string, int64_t> histogram_;
  std::unordered_set<const StoredTensor*> counted_;
};

using FindFacts = std::function<const ValueFacts*(const std::string&)>;

// Bodies count once: how often a loop runs is not known before it does.
std::optional<double> CountMultiplyAdds(const Graph& graph, const FactsByName& values, const GraphFacts& all,
                                        const FindFacts& outer);

std::optional<double> CountMultiplyAdds(const Node& node, const GraphFacts& all, const FindFacts& find) {
  std::vector<const ValueFacts*> inputs, outputs;
  for (const std::string& name : node.inputs) inputs.push_back(name.empty() ? nullptr : find(name));
  for (const std::string& name : node.outputs) outputs.push_back(name.empty() ? nullptr : find(name));
  std::optional<double> cost = MultiplyAdds(node, inputs, outputs);
  ForEachSubgraph(node, [&](const Graph& body) {
    auto it = all.bodies.find(&body);
    std::optional<double> inside;
    if (it != all.bodies.end()) inside = CountMultiplyAdds(body, it->second, all, find);
    cost = cost && inside ? std::optional(*cost + *inside) : std::nullopt;
  });
  return cost;
}

std::optional<double> CountMultiplyAdds(const Graph& graph, const FactsByName& values, const GraphFacts& all,
                                        const FindFacts& outer) {
  FindFacts find = [&](const std::string& name) -> const ValueFacts* {
    auto it = values.find(name);
    return it != values.end() ? &it->second : outer ? outer(name) : nullptr;
  };
  std::optional<double> total = 0;
  for (const Node& node : graph.nodes) {
    std::optional<double> cost = CountMultiplyAdds(node, all, find);
    if (!cost) return std::nullopt;
    *total += *cost;
  }
  return total;
}

std::optional<int64_t> BytesOf(const ValueFacts* facts) {
  std::optional<Shape> shape = facts && facts->type.shape ? ToConcrete(*facts->type.shape) : std::nullopt;
  if (!shape) return std::nullopt;
  return static_cast<int64_t>(StorageBytes(facts->type.dtype, shape->ElementCount()));
}

// `symbolic` knows shapes by the names of dimensions, `sized` by the sizes that were asked for.
std::vector<LayerInfo> ListLayers(const Graph& graph, const GraphFacts& symbolic, const GraphFacts& sized) {
  std::unordered_map<std::string, const StoredTensor*> weights;
  for (const StoredTensor& initializer : graph.initializers) weights.emplace(initializer.name, &initializer);
  std::unordered_set<std::string> counted;
  std::vector<LayerInfo> layers;
  FindFacts find = [&](const std::string& name) { return sized.Find(name); };
  for (const Node& node : graph.nodes) {
    LayerInfo layer{node.name, node.op_type, {}, {}, 0, CountMultiplyAdds(node, sized, find), 0};
    std::vector<std::string> reads = node.inputs;
    for (std::string& captured : CapturedNames(node)) reads.push_back(std::move(captured));
    for (size_t i = 0; i < reads.size(); ++i) {
      const std::string& name = reads[i];
      auto weight = weights.find(name);
      if (name.empty()) continue;
      if (weight == weights.end()) {
        layer.inputs.push_back(name);
        continue;
      }
      const bool is_float = IsFloating(weight->second->dtype);
      const FewBits few = i == QuantizedInput(node) ? CountQuantized(node, *weight->second) : FewBits{};
      if ((is_float || few.bits > 0) && counted.insert(name).second)
        layer.parameters += is_float ? CountOf(weight->second->dims) : few.count;
    }
    for (const std::string& name : node.outputs) {
      if (name.empty()) continue;
      ValueInfo info;
      info.name = name;
      if (const ValueFacts* facts = symbolic.Find(name)) info.type = facts->type;
      layer.outputs.push_back(std::move(info));
      std::optional<int64_t> bytes = BytesOf(sized.Find(name));
      layer.output_bytes = layer.output_bytes && bytes ? std::optional(*layer.output_bytes + *bytes) : std::nullopt;
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

// Takes every node and runs none: a program is laid out without preparing its weights.
class LayoutProvider final : public Provider {
 public:
  std::string_view name() const override { return "layout"; }
  std::string Fingerprint(const ProviderOptions&) const override { return {}; }
  std::unique_ptr<const Compiler> Open(const ProviderOptions&) const override { return std::make_unique<Layout>(); }

 private:
  struct Layout final : Compiler {
    std::optional<ChosenKernel> Choose(const KernelRequest&) const override { return ChosenKernel(); }
  };
};

// The memory of a run beside the weights: the planned arena, and inputs and results, which are the caller's.
std::optional<int64_t> ActivationBytes(const Graph& graph, const GraphFacts& facts, const ModelSummary& summary) {
  std::vector<std::string> inputs, results;
  for (const ValueInfo& input : summary.inputs) inputs.push_back(input.name);
  for (const ValueInfo& output : graph.outputs) results.push_back(output.name);
  const LayoutProvider provider;
  const Provider* providers[] = {&provider};
  WeightCache weights;
  const CompilerList compilers(providers, {});
  const std::shared_ptr<const Plan> plan = MakePlan({graph, facts, inputs, results, compilers, weights}).plan;
  auto bytes = static_cast<int64_t>(plan->ArenaBytes());
  for (const Slot& slot : plan->slots) {
    if (slot.place == Slot::Place::kDynamic) return std::nullopt;
    if (slot.place != Slot::Place::kInput && slot.place != Slot::Place::kResult) continue;
    std::optional<int64_t> known = BytesOf(facts.Find(slot.name));
    if (!known) return std::nullopt;
    bytes += *known;
  }
  return bytes;
}

void Infer(const Model& model, const FactsByName& inputs, ModelSummary& summary) {
  Graph graph = PrepareGraph(model);
  // The same inference twice: with names kept, for the shapes of outputs; with sizes filled in, for the costs.
  GraphFacts symbolic = InferGraph(graph, {});
  for (ValueInfo& output : summary.outputs)
    if (const ValueFacts* facts = symbolic.Find(output.name)) output.type = Merge(output.type, facts->type);
  GraphFacts facts = InferGraph(graph, inputs);
  summary.layers = ListLayers(graph, symbolic, facts);
  summary.multiply_adds = CountMultiplyAdds(graph, facts.values, facts, {});
  summary.activation_bytes = ActivationBytes(graph, facts, summary);
  if (!summary.multiply_adds || !summary.activation_bytes)
    summary.unknown_because = "some sizes are known only while running";
}

}  // namespace

ModelSummary Summarize(const Model& model, const std::map<std::string, int64_t>& dimensions) {
  ModelSummary summary;
  summary.outputs = model.graph.outputs;
  const SizedInputs sized = SizeInputs(model, dimensions);
  summary.inputs = sized.infos;
  summary.dimensions = sized.dimensions;
  Counter counter(summary);
  counter.Visit(model.graph);
  for (const Function& function : model.functions) counter.Visit(function.nodes);
  counter.Finish();
  try {
    Infer(model, sized.facts, summary);
  } catch (const Error& error) {
    summary.unknown_because = error.message();
  }
  return summary;
}

std::vector<OperatorCost> CostByOperator(const std::vector<LayerInfo>& layers) {
  std::vector<OperatorCost> costs;
  for (const LayerInfo& layer : layers) {
    auto cost = std::find_if(costs.begin(), costs.end(), [&](const OperatorCost& c) { return c.op == layer.op; });
    if (cost == costs.end()) cost = costs.insert(costs.end(), OperatorCost{.op = layer.op});
    ++cost->nodes;
    cost->parameters += layer.parameters;
    if (cost->multiply_adds && layer.multiply_adds)
      *cost->multiply_adds += *layer.multiply_adds;
    else
      cost->multiply_adds.reset();
    if (cost->output_bytes && layer.output_bytes)
      *cost->output_bytes += *layer.output_bytes;
    else
      cost->output_bytes.reset();
  }
  std::stable_sort(costs.begin(), costs.end(), [](const OperatorCost& a, const OperatorCost& b) {
    double x = a.multiply_adds.value_or(0), y = b.multiply_adds.value_or(0);
    return x != y ? x > y : a.nodes > b.nodes;
  });
  return costs;
}

}  // namespace ferry
