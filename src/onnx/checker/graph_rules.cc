// Graphs: names, single assignment, order, cycles, what goes in and out.
#include <algorithm>

#include "base/text.h"
#include "onnx/checker/context.h"

namespace ferry::checker {
namespace {

bool HasShape(const Type& type) { return type.kind != Type::Kind::kTensor || type.shape.has_value(); }

bool HasWholeType(const Type& type) {
  switch (type.kind) {
    case Type::Kind::kUnknown: return false;
    case Type::Kind::kTensor:
    case Type::Kind::kSparseTensor: return type.dtype != DType::kUndefined;
    case Type::Kind::kSequence:
    case Type::Kind::kOptional: return type.element && type.element->known();
    case Type::Kind::kMap: return type.dtype != DType::kUndefined && type.element && type.element->known();
    case Type::Kind::kOpaque: return !type.opaque_name.empty();
  }
  return false;
}

void CheckValueInfo(const ValueInfo& value, const char* role, const GraphContext& context) {
  if (value.name.empty())
    return context.report().Add("value.name-missing", context.At(), Cat("an ", role, " of the graph has no name"));
  bool is_main = !context.outer;
  if (!is_main) return;
  if (!HasWholeType(value.type))
    context.report().Add("value.type-missing", context.At(value.name), Cat("the ", role, " says no type"));
  else if (!HasShape(value.type))
    context.report().Add("value.shape-missing", context.At(value.name), Cat("the ", role, " says no shape"));
}

void DefineInputs(const Graph& graph, GraphContext& context) {
  for (const ValueInfo& input : graph.inputs) {
    CheckValueInfo(input, "input", context);
    if (input.name.empty()) continue;
    if (context.outer && context.outer->Knows(input.name))
      context.report().Add("graph.shadowing", context.At(input.name),
                           "the input has the name of a value of the graph around");
    if (!context.names.insert(input.name).second)
      context.report().Add("graph.duplicate-input", context.At(input.name), "is an input twice");
  }
}

void DefineInitializer(const std::string& name, std::unordered_set<std::string_view>& seen, GraphContext& context) {
  Report& report = context.report();
  if (name.empty()) return report.Add("initializer.name-missing", context.At(), "an initializer has no name");
  if (!seen.insert(name).second) report.Add("initializer.duplicate", context.At(name), "is an initializer twice");
  if (context.outer && context.outer->Knows(name) && !context.names.count(name))
    report.Add("graph.shadowing", context.At(name), "the initializer has the name of a value of the graph around");
  bool is_input = !context.names.insert(name).second;
  if (context.model.model.ir_version > 0 && context.model.model.ir_version <= 3 && !is_input)
    report.Add("initializer.not-an-input", context.At(name), "is an initializer but no input of the graph");
}

void DefineInitializers(const Graph& graph, GraphContext& context) {
  std::unordered_set<std::string_view> seen;
  for (const StoredTensor& tensor : graph.initializers) {
    DefineInitializer(tensor.name, seen, context);
    CheckTensor(tensor, context.At(tensor.name), context.report());
  }
  for (const StoredSparseTensor& tensor : graph.sparse_initializers) {
    DefineInitializer(tensor.values.name, seen, context);
    CheckSparseTensor(tensor, context.At(tensor.values.name), context.report());
  }
}

// What the nodes of one graph give each other, to tell a wrong order from a cycle and a cycle from a missing value.
class Dependences {
 public:
  explicit Dependences(const std::vector<Node>& nodes) : nodes_(nodes) {
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const std::string& output : nodes[i].outputs)
        if (!output.empty()) producer_.emplace(output, i);
  }

  const Producers& producers() const { return producer_; }

  // Each cycle once, as indices of its nodes. Found by strongly connected components (Tarjan), without recursion.
  std::vector<std::vector<size_t>> Cycles() {
    reached_.assign(nodes_.size(), 0);
    lowest_.assign(nodes_.size(), 0);
    on_stack_.assign(nodes_.size(), false);
    edges_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) GatherReads(nodes_[i], edges_[i]);
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (!reached_[i]) Explore(i);
    return std::move(cycles_);
  }

 private:
  struct Frame {
    size_t node;
    size_t next_edge;
  };

  void GatherReads(const Node& node, std::vector<size_t>& edges) {
    for (const std::string& input : node.inputs) {
      auto it = producer_.find(input);
      if (it != producer_.end()) edges.push_back(it->second);
    }
    ForEachSubgraph(node, [&](const Graph& body) {
      for (const Node& inner : body.nodes) GatherReads(inner, edges);
    });
  }

  void Explore(size_t root) {
    std::vector<Frame> path;
    Enter(root, path);
    while (!path.empty()) {
      Frame& frame = path.back();
      if (frame.next_edge < edges_[frame.node].size()) {
        size_t next = edges_[frame.node][frame.next_edge++];
        if (!reached_[next])
          Enter(next, path);
        else if (on_stack_[next])
          lowest_[frame.node] = std::min(lowest_[frame.node], reached_[next]);
        continue;
      }
      size_t done = frame.node;
      path.pop_back();
      if (!path.empty()) lowest_[path.back().node] = std::min(lowest_[path.back().node], lowest_[done]);
      if (lowest_[done] == reached_[done]) CloseComponent(done);
    }
  }

  void Enter(size_t node, std::vector<Frame>& path) {
    reached_[node] = lowest_[node] = ++clock_;
    stack_.push_back(node);
    on_stack_[node] = true;
    path.push_back({node, 0});
  }

  void CloseComponent(size_t root) {
    std::vector<size_t> component;
    for (;;) {
      size_t node = stack_.back();
      stack_.pop_back();
      on_stack_[node] = false;
      component.push_back(node);
      if (node == root) break;
    }
    bool reads_itself = std::count(edges_[root].begin(), edges_[root].end(), root) > 0;
    if (component.size() == 1 && !reads_itself) return;
    std::sort(component.begin(), component.end());
    cycles_.push_back(std::move(component));
  }

  const std::vector<Node>& nodes_;
  Producers producer_;
  std::vector<std::vector<size_t>> edges_;
  std::vector<size_t> reached_, lowest_, stack_;
  std::vector<bool> on_stack_;
  size_t clock_ = 0;
  std::vector<std::vector<size_t>> cycles_;
};

// Looks for cycles only when some node reads what comes later, which a sound model never does.
class OrderChecker {
 public:
  OrderChecker(const std::vector<Node>& nodes, GraphContext& context)
      : nodes_(nodes), context_(context), dependences_(nodes) {
    context.producers = &dependences_.producers();
  }
  ~OrderChecker() { context_.producers = nullptr; }

  void CheckInputs(size_t i) {
    const Node& node = nodes_[i];
    for (const std::string& input : node.inputs) {
      if (input.empty() || context_.Knows(input)) continue;
      const GraphContext* producing = context_.FindProducing(input);
      if (!producing) {
        context_.report().Add("graph.undefined-input", context_.At(node, input),
                              Cat("reads '", Printable(input), "', which nothing gives"));
      } else if (producing != &context_ || !InCycle(i)) {
        context_.report().Add("graph.order", context_.At(node, input),
                              Cat("reads '", Printable(input), "', which a later node gives"));
      }
    }
  }

 private:
  bool InCycle(size_t i) {
    if (!searched_) {
      searched_ = true;
      in_cycle_.assign(nodes_.size(), false);
      for (const auto& cycle : dependences_.Cycles()) {
        ReportCycle(cycle);
        for (size_t member : cycle) in_cycle_[member] = true;
      }
    }
    return in_cycle_[i];
  }

  void ReportCycle(const std::vector<size_t>& cycle) {
    constexpr size_t kShown = 5;
    std::vector<std::string> names;
    for (size_t k = 0; k < cycle.size() && k < kShown; ++k) names.push_back(Describe(nodes_[cycle[k]]));
    context_.report().Add(
        "graph.cycle", context_.At(nodes_[cycle[0]]),
        Cat(cycle.size(), cycle.size() == 1 ? " node reads its own output: " : " nodes depend on each other: ",
            Join(names, ", "), cycle.size() > kShown ? " …" : ""));
  }

  const std::vector<Node>& nodes_;
  GraphContext& context_;
  Dependences dependences_;
  bool searched_ = false;
  std::vector<bool> in_cycle_;
};

void DefineOutputs(const Node& node, GraphContext& context) {
  for (const std::string& output : node.outputs) {
    if (output.empty()) continue;
    if (context.outer && context.outer->Knows(output))
      context.report().Add("graph.shadowing", context.At(node, output),
                           Cat("gives '", Printable(output), "', a name that the graph around has"));
    if (!context.names.insert(output).second)
      context.report().Add("graph.ssa", context.At(node, output),
                           Cat("gives '", Printable(output), "', which exists already"));
  }
}

// What a node gives, against what its operator can give at this opset and against what is declared.
void CheckOutputTypes(const Node& node, const GraphContext& context) {
  const Schema* schema = FindSchema(node.domain, node.op_type, OpsetOf(context.opsets, node.domain));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string& output = node.outputs[i];
    SchemaTypeId given = output.empty() ? SchemaTypeId{0} : context.scope->TypeIdOf(output);
    if (given == 0) continue;
    SchemaTypeId declared = context.scope->DeclaredIdOf(output);
    const SchemaParameter* parameter = schema ? schema->OutputAt(i) : nullptr;
    if (parameter && !schema->TypesOf(*parameter).Contains(given))
      context.report().Add(
          "node.output-type", context.At(node, output),
          Cat("gives ", SchemaTypeName(given), ", which ", schema->name(), " cannot give at this opset"));
    else if (declared && given != declared)
      context.report().Add("node.output-type", context.At(node, output),
                           Cat("'", Printable(output), "' is declared as ", SchemaTypeName(declared),
                               ", but the node gives ", SchemaTypeName(given)));
  }
}

void CheckOutputs(const Graph& graph, GraphContext& context) {
  std::unordered_set<std::string_view> seen;
  for (const ValueInfo& output : graph.outputs) {
    CheckValueInfo(output, "output", context);
    if (output.name.empty()) continue;
    if (!seen.insert(output.name).second)
      context.report().Add("graph.duplicate-output", context.At(output.name), "is an output twice");
    if (!context.names.count(output.name))
      context.report().Add("graph.output-undefined", context.At(output.name),
                           "is an output of the graph, but nothing in it gives it");
  }
}

void CheckDescriptions(const Graph& graph, GraphContext& context) {
  std::unordered_set<std::string_view> seen;
  for (const ValueInfo& value : graph.value_infos)
    if (!value.name.empty() && !seen.insert(value.name).second)
      context.report().Add("value.duplicate", context.At(value.name), "is described twice in value_info");
  for (const QuantizationAnnotation& annotation : graph.quantization)
    if (!context.names.count(annotation.tensor_name))
      context.report().Add("quantization.tensor", context.At(annotation.tensor_name),
                           "is annotated, but does not exist");
}

}  // namespace

void CheckNodes(const std::vector<Node>& nodes, GraphContext& context) {
  OrderChecker order(nodes, context);
  for (size_t i = 0; i < nodes.size() && !context.report().full(); ++i) {
    context.scope->EnterNode(i);
    order.CheckInputs(i);
    CheckNode(nodes[i], context);
    DefineOutputs(nodes[i], context);
    context.scope->EnterNode(i + 1);
    CheckOutputTypes(nodes[i], context);
  }
}

void CheckGraph(const Graph& graph, GraphContext& context) {
  constexpr int kDeepest = 100;
  if (context.depth > kDeepest)
    return context.report().Add("graph.nesting", context.At(), Cat("graphs are nested more than ", kDeepest, " deep"));
  if (graph.name.empty()) context.report().Add("graph.name-missing", context.At(), "the graph has no name");
  context.scope->Declare(graph);
  DefineInputs(graph, context);
  DefineInitializers(graph, context);
  CheckNodes(graph.nodes, context);
  CheckOutputs(graph, context);
  CheckDescriptions(graph, context);
}

}  // namespace ferry::checker
