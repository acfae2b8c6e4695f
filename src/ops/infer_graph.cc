#include "ops/infer_graph.h"

#include <algorithm>

#include "base/check_run.h"
#include "ops/evaluate.h"
#include "ops/operator.h"
#include "tensor/alignment.h"

namespace ferry {
namespace {

// Longer integer tensors are data, not shapes.
constexpr int64_t kLongestElements = 256;

// Too much to be copied before anybody asks for its elements.
bool IsWeight(const Tensor& tensor) {
  constexpr size_t kLongestParameter = 4096;  // bytes: rules read factors and limits
  return IsFloating(tensor.dtype()) && tensor.bytes() > kLongestParameter;
}

class Inference {
 public:
  Inference(const InferOptions& options, GraphFacts& found, bool only_new = false)
      : options_(options), found_(found), only_new_(only_new) {}

  void Run(const Graph& graph, FactsByName& values, const OuterFacts& outer) {
    OuterFacts scope = [&](const std::string& name) -> const ValueFacts* {
      auto it = values.find(name);
      if (it != values.end()) return &it->second;
      return outer ? outer(name) : nullptr;
    };
    for (const Node& node : graph.nodes) {
      if (only_new_ && IsKnown(node, values)) continue;
      CheckRun();
      std::vector<ValueFacts> outputs;
      try {
        outputs = InferNode(node, scope);
      } catch (Error& error) {
        error.At(Describe(node));
        if (!options_.on_error) throw;
        options_.on_error(node, error);
        outputs.assign(node.outputs.size(), {});
      }
      for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i)
        if (!node.outputs[i].empty()) values[node.outputs[i]] = std::move(outputs[i]);
    }
  }

  // Facts of everything a graph declares: constants first, then inputs.
  FactsByName Declared(const Graph& graph) {
    FactsByName values;
    values.reserve(graph.initializers.size() + graph.inputs.size() + graph.nodes.size());
    AddDeclared(graph, values);
    return values;
  }

  // The same for what is not known yet.
  void AddDeclared(const Graph& graph, FactsByName& values) {
    if (options_.defaults_may_change)
      for (const ValueInfo& input : graph.inputs) values.try_emplace(input.name, ValueFacts{.type = input.type});
    for (const StoredTensor& initializer : graph.initializers) {
      if (!initializer.problem.empty() || !initializer.tensor.defined() || values.count(initializer.name)) continue;
      const Tensor& tensor = initializer.tensor;
      // Straight from a file a tensor may lie at any address.
      if (IsReadable(tensor) || (options_.weights_anywhere && IsWeight(tensor)))
        values[initializer.name] = FactsOf(tensor);
      else if (tensor.size() > options_.largest_computed)
        values[initializer.name].type = Type::Tensor(tensor.dtype(), ToSymbolic(tensor.shape()));
      else
        values[initializer.name] = FactsOf(IsWeight(tensor) ? tensor : tensor.Clone());
    }
    for (const ValueInfo& input : graph.inputs)
      if (!values.count(input.name)) values[input.name].type = input.type;
  }

  std::vector<ValueFacts> InferNode(const Node& node, const OuterFacts& scope) {
    const Operator* op = FindOperator(node.domain, node.op_type);
    std::vector<const ValueFacts*> inputs;
    for (const std::string& name : node.inputs) {
      static const ValueFacts kUnknown;
      const ValueFacts* facts = name.empty() ? nullptr : scope(name);
      inputs.push_back(name.empty() ? nullptr : facts ? facts : &kUnknown);
    }
    std::vector<ValueFacts> only_types;
    const std::vector<const ValueFacts*> shown = ShownToRule(inputs, only_types);
    InferContext context(node, shown, node.outputs.size(), [&](const Graph& body, std::span<const ValueFacts> given) {
      return InferBody(body, given, scope);
    });
    if (op && op->infer) op->infer(context);
    for (ValueFacts& facts : context.outputs()) ConstantFromElements(facts);
    if (op && op->compute && IsComputable(*op, inputs, context.outputs())) Compute(node, inputs, context.outputs());
    return std::move(context.outputs());
  }

 private:
  static bool IsKnown(const Node& node, const FactsByName& values) {
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](const std::string& output) { return output.empty() || values.count(output) > 0; });
  }

  std::vector<ValueFacts> InferBody(const Graph& body, std::span<const ValueFacts> given, const OuterFacts& scope) {
    FactsByName values = Declared(body);
    for (size_t i = 0; i < body.inputs.size() && i < given.size(); ++i) {
      // Only the type: a body runs many times, and what it starts with is not what it goes on with.
      values[body.inputs[i].name] = ValueFacts{.type = given[i].type.known() ? given[i].type : body.inputs[i].type};
    }
    Run(body, values, scope);
    std::vector<ValueFacts> outputs;
    for (const ValueInfo& output : body.outputs) {
      auto it = values.find(output.name);
      const ValueFacts* facts = it != values.end() ? &it->second : scope(output.name);
      outputs.push_back(facts ? *facts : ValueFacts{});
      if (!outputs.back().type.known()) outputs.back().type = output.type;
    }
    found_.bodies[&body] = std::move(values);
    return outputs;
  }

  // Rules read elements: of constants that are not aligned they see the type, which `held` is for.
  static std::vector<const ValueFacts*> ShownToRule(std::vector<const ValueFacts*> inputs,
                                                    std::vector<ValueFacts>& held) {
    for (const ValueFacts*& input : inputs)
      if (input && input->constant && !IsReadable(*input->constant)) {
        held.reserve(inputs.size());
        held.push_back({.type = input->type});
        input = &held.back();
      }
    return inputs;
  }

  bool IsComputable(const Operator& op, const std::vector<const ValueFacts*>& inputs,
                    const std::vector<ValueFacts>& outputs) const {
    if (op.is_random || op.has_subgraphs || outputs.empty()) return false;
    int64_t input_size = 0;
    for (const ValueFacts* input : inputs) {
      if (!input) continue;
      if (!input->constant) return false;
      input_size += input->constant->size();
    }
    for (const ValueFacts& output : outputs) {
      if (output.constant || !output.type.is_tensor()) return false;
      std::optional<Shape> shape = output.type.shape ? ToConcrete(*output.type.shape) : std::nullopt;
      // A size that only the values tell (NonZero, Unique …) is never far from that of the inputs.
      if (shape ? shape->ElementCount() > options_.largest_computed : input_size > options_.largest_computed)
        return false;
    }
    return true;
  }

  void Compute(const Node& node, const std::vector<const ValueFacts*>& inputs, std::vector<ValueFacts>& outputs) const {
    std::vector<Value> held(inputs.size());
    std::vector<const Value*> values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i]) held[i] = Readable(*inputs[i]->constant);
      values.push_back(inputs[i] ? &held[i] : nullptr);
    }
    std::vector<Value> results;
    try {
      results = EvaluateNode(node, values, RunServices{});
    } catch (const Error&) {
      return;  // the run will meet it again and say so
    }
    for (size_t i = 0; i < results.size() && i < outputs.size(); ++i)
      if (results[i].is_tensor()) outputs[i] = FactsOf(results[i].tensor());
  }

  static void ConstantFromElements(ValueFacts& facts) {
    if (facts.constant || !facts.elements || !facts.type.shape || facts.type.shape->size() > 1) return;
    if (facts.type.dtype != DType::kInt64 && facts.type.dtype != DType::kInt32) return;
    std::vector<int64_t> ints;
    for (const Dim& element : *facts.elements) {
      if (!element.known()) return;
      ints.push_back(*element.value);
    }
    Shape shape = facts.type.shape->empty() ? Shape{} : Shape{static_cast<int64_t>(ints.size())};
    if (shape.ElementCount() != static_cast<int64_t>(ints.size())) return;
    if (facts.type.dtype == DType::kInt64)
      facts.constant = Tensor::FromVector<int64_t>(ints, shape);
    else
      facts.constant = Tensor::FromVector<int32_t>(std::vector<int32_t>(ints.begin(), ints.end()), shape);
  }

  const InferOptions& options_;
  GraphFacts& found_;
  const bool only_new_;  // nodes whose outputs are known are passed over
};

}  // namespace

ValueFacts FactsOf(const Tensor& constant) {
  ValueFacts facts;
  facts.type = Type::Tensor(constant.dtype(), ToSymbolic(constant.shape()));
  facts.constant = constant;
  bool is_index = constant.dtype() == DType::kInt64 || constant.dtype() == DType::kInt32;
  if (is_index && constant.rank() <= 1 && constant.size() <= kLongestElements) {
    SymbolicShape elements;
    for (int64_t value : ToInt64Vector(constant)) elements.emplace_back(value);
    facts.elements = std::move(elements);
  }
  return facts;
}

Type TypeOf(const Value& value) {
  if (value.is_tensor()) return Type::Tensor(value.tensor().dtype(), ToSymbolic(value.tensor().shape()));
  if (value.is_sequence()) {
    const auto& elements = value.sequence().elements;
    Type element = elements.empty() ? Type{} : TypeOf(elements[0]);
    for (const Value& other : elements) element = Union(element, TypeOf(other));
    return Type::SequenceOf(element);
  }
  if (value.is_map()) return Type::MapOf(value.map().keys.dtype(), Type::Tensor(value.map().values.dtype()));
  if (value.is_sparse()) return Type::SparseTensor(value.sparse().values.dtype(), ToSymbolic(value.sparse().shape));
  return {};
}

GraphFacts InferGraph(const Graph& graph, const FactsByName& inputs, const InferOptions& options) {
  GraphFacts found;
  Inference inference(options, found);
  FactsByName values = inference.Declared(graph);
  for (const auto& [name, facts] : inputs) values[name] = facts;
  inference.Run(graph, values, {});
  found.values = std::move(values);
  return found;
}

void InferNew(const Graph& graph, GraphFacts& facts) {
  InferOptions options;
  options.on_error = [](const Node&, const Error&) {};
  Inference inference(options, facts, true);
  inference.AddDeclared(graph, facts.values);
  inference.Run(graph, facts.values, {});
}

std::vector<ValueFacts> InferNode(const Node& node, const OuterFacts& known, const InferOptions& options) {
  GraphFacts bodies;
  return Inference(options, bodies).InferNode(node, known);
}

}  // namespace ferry
