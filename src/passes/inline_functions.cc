#include "passes/inline_functions.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/run_scope.h"

namespace ferry {
namespace {

constexpr int kDeepestCalls = 64;

[[noreturn]] void FailTooDeep(const Node& node) {
  Fail(ErrorCode::kInvalidModel, Describe(node), ": function calls are nested more than ", kDeepestCalls,
       " deep; does the function call itself?");
}

[[noreturn]] void FailTooMany(const Node& node, size_t limit) {
  Fail(ErrorCode::kLimit, Describe(node), ": inlining the model's functions makes more than ", limit,
       " nodes; raise the limit (max_expanded_nodes) if that is meant");
}

// How many nodes the functions of a model become. Each function is counted once, however often it is called: functions
// that call each other twice would take for ever to be expanded first.
class ExpansionCount {
 public:
  explicit ExpansionCount(const Model& model) : model_(model), limit_(RunScope::CurrentLimits().expanded_nodes) {}

  void Check(const std::vector<Node>& nodes) {
    size_t made = 0;
    for (const Node& node : nodes)
      if ((made += MadeOf(node)) > limit_) FailTooMany(node, limit_);
  }

 private:
  struct Size {
    size_t nodes = 0;
    int height = 0;  // calls inside calls
    bool is_known = false;
  };

  // Nodes that functions add in the place of this one.
  size_t MadeOf(const Node& node) {
    const Size size = SizeOf(node);
    if (size.height > kDeepestCalls) FailTooDeep(node);
    return size.nodes;
  }

  Size SizeOf(const Node& node) {
    Size size;
    auto add = [&](const Size& other) {
      size.nodes = std::min(size.nodes + other.nodes, limit_ + 1);
      size.height = std::max(size.height, other.height);
    };
    auto add_graph = [&](const std::shared_ptr<Graph>& graph) {
      if (graph)
        for (const Node& inner : graph->nodes) add(SizeOf(inner));
    };
    for (const Attribute& attribute : node.attributes) {
      if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute.held)) add_graph(*one);
      if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute.held))
        for (const auto& graph : *many) add_graph(graph);
    }
    if (const Function* function = model_.FindFunction(node.domain, node.op_type, node.overload))
      add(SizeOf(*function, node));
    return size;
  }

  Size SizeOf(const Function& function, const Node& call) {
    auto [found, is_new] = sizes_.try_emplace(&function);
    if (!is_new && !found->second.is_known) FailTooDeep(call);
    if (!is_new) return found->second;
    Size size;
    for (const Node& node : function.nodes) {
      const Size inner = SizeOf(node);
      size.nodes = std::min(size.nodes + inner.nodes + 1, limit_ + 1);
      size.height = std::max(size.height, inner.height);
    }
    ++size.height;
    size.is_known = true;
    return sizes_[&function] = size;
  }

  const Model& model_;
  const size_t limit_;
  std::unordered_map<const Function*, Size> sizes_;
};

using Renames = std::unordered_map<std::string, std::string>;

class Inliner {
 public:
  explicit Inliner(const Model& model) : model_(model) {}

  void Expand(std::vector<Node>& nodes, int depth) {
    std::vector<Node> expanded;
    for (Node& node : nodes) {
      for (Attribute& attribute : node.attributes) ExpandSubgraphs(attribute, depth);
      const Function* function = model_.FindFunction(node.domain, node.op_type, node.overload);
      if (!function) {
        expanded.push_back(std::move(node));
        continue;
      }
      if (depth >= kDeepestCalls) FailTooDeep(node);
      CheckRun();
      std::vector<Node> body = Instantiate(*function, node);
      made_ += body.size();
      if (made_ > limit_) FailTooMany(node, limit_);
      Expand(body, depth + 1);
      for (Node& inner : body) expanded.push_back(std::move(inner));
    }
    nodes = std::move(expanded);
  }

 private:
  void ExpandSubgraphs(Attribute& attribute, int depth) {
    if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute.held)) {
      if (*one) Expand((*one)->nodes, depth);
    } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute.held)) {
      for (auto& graph : *many)
        if (graph) Expand(graph->nodes, depth);
    }
  }

  std::vector<Node> Instantiate(const Function& function, const Node& call) {
    std::string prefix = Cat(call.name.empty() ? function.name : call.name, "/", ++calls_, "/");
    if (call.inputs.size() > function.inputs.size() || call.outputs.size() > function.outputs.size())
      Fail(ErrorCode::kInvalidModel, Describe(call), ": the function takes ", function.inputs.size(),
           " inputs and gives ", function.outputs.size(), " outputs, the call has ", call.inputs.size(), " and ",
           call.outputs.size());
    Renames names;
    for (size_t i = 0; i < function.inputs.size(); ++i)
      names[function.inputs[i]] = i < call.inputs.size() ? call.inputs[i] : "";
    std::vector<Node> identities;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const std::string& inner = function.outputs[i];
      if (call.outputs[i].empty()) continue;
      auto known = names.find(inner);
      if (known == names.end()) {
        names[inner] = call.outputs[i];
      } else {  // an input handed through, or one value under two names
        Node identity;
        identity.op_type = "Identity";
        identity.inputs = {known->second};
        identity.outputs = {call.outputs[i]};
        identities.push_back(std::move(identity));
      }
    }
    std::vector<Node> nodes;
    for (const Node& node : function.nodes) nodes.push_back(CopyNode(node, function, call, names, prefix));
    for (Node& identity : identities) nodes.push_back(std::move(identity));
    return nodes;
  }

  static std::string Rename(const std::string& name, Renames& names, const std::string& prefix) {
    if (name.empty()) return name;
    auto it = names.find(name);
    return it != names.end() ? it->second : names[name] = prefix + name;
  }

  Node CopyNode(const Node& original, const Function& function, const Node& call, Renames& names,
                const std::string& prefix) {
    Node node = original;
    node.name = prefix + (original.name.empty() ? original.op_type : original.name);
    for (std::string& input : node.inputs) input = Rename(input, names, prefix);
    for (std::string& output : node.outputs) output = Rename(output, names, prefix);
    std::vector<Attribute> attributes;
    for (const Attribute& attribute : original.attributes) {
      Attribute bound = attribute;
      if (!attribute.ref_name.empty() && !BindReference(attribute, function, call, bound)) continue;
      CopySubgraphs(bound, function, call, names, prefix);
      attributes.push_back(std::move(bound));
    }
    node.attributes = std::move(attributes);
    return node;
  }

  // False when neither the call nor the function gives the attribute a value: the operator's own default holds then.
  static bool BindReference(const Attribute& reference, const Function& function, const Node& call, Attribute& bound) {
    const Attribute* given = call.Find(reference.ref_name);
    if (!given)
      for (const Attribute& fallback : function.attribute_defaults)
        if (fallback.name == reference.ref_name) given = &fallback;
    if (!given) return false;
    bound = *given;
    bound.name = reference.name;
    return true;
  }

  void CopySubgraphs(Attribute& attribute, const Function& function, const Node& call, const Renames& names,
                     const std::string& prefix) {
    auto copy = [&](std::shared_ptr<Graph>& graph) {
      if (graph) graph = std::make_shared<Graph>(CopyBody(*graph, function, call, names, prefix));
    };
    if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute.held)) {
      copy(*one);
    } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute.held)) {
      for (auto& graph : *many) copy(graph);
    }
  }

  Graph CopyBody(const Graph& original, const Function& function, const Node& call, Renames names,
                 const std::string& prefix) {
    Graph graph = original;
    for (ValueInfo& input : graph.inputs) input.name = names[input.name] = prefix + input.name;
    for (StoredTensor& initializer : graph.initializers)
      initializer.name = names[initializer.name] = prefix + initializer.name;
    for (Node& node : graph.nodes) node = CopyNode(Node(node), function, call, names, prefix);
    for (ValueInfo& output : graph.outputs) output.name = Rename(output.name, names, prefix);
    graph.value_infos.clear();
    return graph;
  }

  const Model& model_;
  const size_t limit_ = RunScope::CurrentLimits().expanded_nodes;
  int64_t calls_ = 0;
  size_t made_ = 0;
};

}  // namespace

void InlineFunctions(Model& model) {
  if (model.functions.empty()) return;
  ExpansionCount(model).Check(model.graph.nodes);
  Inliner(model).Expand(model.graph.nodes, 0);
  model.functions.clear();
}

}  // namespace ferry
