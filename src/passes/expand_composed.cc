#include "passes/expand_composed.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "graph/names.h"
#include "onnx/schema.h"
#include "ops/infer_graph.h"
#include "ops/support/compose.h"
#include "ops/support/nchwc.h"
#include "tensor/alignment.h"

namespace ferry {
namespace {

bool IsComposed(const Node& node) { return FindComposition(node.domain, node.op_type) != nullptr; }

bool HasComposed(const Graph& graph) {
  bool found = false;
  ForEachGraph(graph, [&](const Graph& inner) {
    found = found || std::any_of(inner.nodes.begin(), inner.nodes.end(), IsComposed);
  });
  return found;
}

bool HasRightArity(const Node& node) {
  const Schema* schema = FindSchema(node.domain, node.op_type, NewestOpset(node.domain));
  return !schema || (node.inputs.size() >= schema->min_inputs && node.inputs.size() <= schema->max_inputs &&
                     node.outputs.size() >= schema->min_outputs && node.outputs.size() <= schema->max_outputs);
}

class GraphComposer final : public Composer {
 public:
  using Makers = std::unordered_map<std::string, std::string>;

  GraphComposer(const Node& node, NameMaker& names, const Makers& makers)
      : Composer(node), names_(names), makers_(makers) {}

  std::string_view MadeBy(Term term) const override {
    auto it = makers_.find(term.name());
    return it == makers_.end() ? std::string_view() : it->second;
  }

  std::vector<Node> nodes;
  std::vector<StoredTensor> constants;

  // Gives the node's outputs the names that they had. False when one was not made.
  bool NameOutputs() {
    std::unordered_map<std::string, std::string> renamed;
    std::unordered_set<std::string> made;
    for (const Node& node : nodes) made.insert(node.outputs.begin(), node.outputs.end());
    std::vector<Node> copies;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!Wants(i)) continue;
      const std::string& inner = outputs_[i].name();
      if (inner.empty()) return false;
      if (made.count(inner) && renamed.emplace(inner, node_.outputs[i]).second) continue;
      Node copy;  // an input or a constant handed through, or one value under two names
      copy.op_type = "Identity";
      copy.inputs = {inner};
      copy.outputs = {node_.outputs[i]};
      copies.push_back(std::move(copy));
    }
    for (Node& copy : copies) nodes.push_back(std::move(copy));
    auto rename = [&](std::string& name) {
      if (auto it = renamed.find(name); it != renamed.end()) name = it->second;
    };
    for (Node& node : nodes) {
      std::for_each(node.inputs.begin(), node.inputs.end(), rename);
      std::for_each(node.outputs.begin(), node.outputs.end(), rename);
    }
    return true;
  }

 private:
  std::string FreshName() override {
    return names_.Make(Cat(node_.name.empty() ? node_.op_type : node_.name, "/", ++made_));
  }
  Term Hold(Tensor tensor) override {
    constants.push_back(MakeStored(FreshName(), tensor));
    return Make(constants.back().name, FactsOf(tensor));
  }
  std::vector<ValueFacts> Perform(const Node& call, ListOf<Term> inputs) override {
    nodes.push_back(call);
    nodes.back().name = names_.Make(Cat(node_.name.empty() ? node_.op_type : node_.name, "/", call.op_type));
    return InferCall(call, inputs);
  }

  NameMaker& names_;
  const Makers& makers_;
};

class Expansion {
 public:
  explicit Expansion(Model& model) : names_(model) {
    InferOptions options;
    options.on_error = [](const Node&, const Error&) {};
    facts_ = InferGraph(model.graph, {}, options);
    Expand(model.graph, [&](const std::string& name) { return facts_.Find(name); });
  }

 private:
  using Known = OuterFacts;

  void Expand(Graph& graph, const Known& known) {
    std::unordered_set<std::string> overridable;
    for (const ValueInfo& input : graph.inputs) overridable.insert(input.name);
    GraphComposer::Makers makers;
    for (const Node& node : graph.nodes)
      if (!node.outputs.empty()) makers[node.outputs[0]] = node.op_type;
    std::vector<Node> expanded;
    expanded.reserve(graph.nodes.size());
    for (Node& node : graph.nodes) {
      ForEachBody(node, known);
      if (Compose compose = FindComposition(node.domain, node.op_type);
          compose && HasRightArity(node) && ExpandNode(node, compose, known, overridable, makers, graph, expanded))
        continue;
      expanded.push_back(std::move(node));
    }
    graph.nodes = std::move(expanded);
  }

  void ForEachBody(Node& node, const Known& outer) {
    for (Attribute& attribute : node.attributes) {
      auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held);
      if (!body || !*body) continue;
      auto found = facts_.bodies.find(body->get());
      Expand(**body, [&](const std::string& name) -> const ValueFacts* {
        if (found != facts_.bodies.end())
          if (auto it = found->second.find(name); it != found->second.end()) return &it->second;
        return outer(name);
      });
    }
  }

  bool ExpandNode(const Node& node, Compose compose, const Known& known,
                  const std::unordered_set<std::string>& overridable, const GraphComposer::Makers& makers, Graph& graph,
                  std::vector<Node>& out) {
    GraphComposer composer(node, names_, makers);
    for (const std::string& name : node.inputs) {
      const ValueFacts* facts = name.empty() ? nullptr : known(name);
      // A caller may give another value than the initializer's.
      if (facts && overridable.count(name))
        composer.AddInput(name, ValueFacts{.type = facts->type});
      else if (const Tensor* weight = facts && !facts->constant ? FilterOf(node, name, graph) : nullptr)
        composer.AddInput(name, FactsOf(Readable(*weight)));
      else
        composer.AddInput(name, facts ? *facts : ValueFacts{});
    }
    try {
      compose(composer);
      if (!composer.NameOutputs()) return false;
    } catch (const NotKnownYet&) {
      return false;
    } catch (const Error&) {
      return false;  // inference or the run will meet it again and say so
    }
    for (StoredTensor& constant : composer.constants) graph.initializers.push_back(std::move(constant));
    for (Node& made : composer.nodes) out.push_back(std::move(made));
    return true;
  }

  // Large weights that lie at any byte of a file have no facts but their shape. Most compositions need no more; filters
  // in blocks of channels are turned into others.
  static const Tensor* FilterOf(const Node& node, const std::string& name, Graph& graph) {
    if (node.domain != operator_domains::nchwc) return nullptr;
    for (StoredTensor& initializer : graph.initializers)
      if (initializer.name == name) return &initializer.Get();
    return nullptr;
  }

  NameMaker names_;
  GraphFacts facts_;
};

}  // namespace

void ExpandComposed(Model& model) {
  if (HasComposed(model.graph)) Expansion expansion(model);
}

}  // namespace ferry
