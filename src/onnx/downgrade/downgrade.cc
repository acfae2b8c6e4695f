#include "onnx/downgrade/downgrade.h"

#include <array>
#include <unordered_set>

#include "onnx/arity.h"
#include "onnx/downgrade/rules.h"
#include "onnx/schema.h"

namespace ferry {
namespace {

const std::array<std::span<const DowngradeRule>, 7>& Families() {
  static const std::array families = {ActivationDowngrades(), ArithmeticDowngrades(), NormalizationDowngrades(),
                                      ReductionDowngrades(),  ResizeDowngrades(),     ShapeDowngrades(),
                                      VariousDowngrades()};
  return families;
}

bool SameValue(const Attribute::Held& a, const Attribute::Held& b) {
  if (a.index() != b.index()) return false;
  if (auto* value = std::get_if<int64_t>(&a)) return *value == std::get<int64_t>(b);
  if (auto* value = std::get_if<float>(&a)) return *value == std::get<float>(b);
  if (auto* value = std::get_if<std::string>(&a)) return *value == std::get<std::string>(b);
  return false;
}

// Attributes that the older version lacks go when they say what is meant without them.
void DropDefaults(Node& node, const Schema& newest, const Schema& older) {
  std::erase_if(node.attributes, [&](const Attribute& attribute) {
    const SchemaAttribute* now = newest.FindAttribute(attribute.name);
    if (!now || older.FindAttribute(attribute.name) || !now->has_default()) return false;
    return SameValue(attribute.held, now->Default());
  });
}

class Downgrader {
 public:
  Downgrader(Model& model, int64_t target, const InferredTypes& inferred)
      : names_(model),
        shared_{.names = names_, .inferred = {}, .constants = {}},
        opsets_(model.opsets),
        target_(target) {
    shared_.inferred = [this, &inferred](const std::string& name) -> const Type* {
      for (auto body = around_.rbegin(); body != around_.rend(); ++body)
        if (const Type* type = inferred(*body, name)) return type;
      return nullptr;
    };
  }

  void DowngradeGraph(Graph& graph, Scope* outer) {
    Scope scope(graph.nodes, opsets_, outer);
    scope.Declare(graph);
    std::vector<Node> out;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      scope.EnterNode(i);
      Node node = graph.nodes[i];
      DowngradeBodies(node, scope);
      Process(std::move(node), scope, out, 0);
    }
    std::unordered_set<std::string> was_used = Reads(graph, graph.nodes);
    RemoveUnused(graph, out, was_used);
    graph.nodes = std::move(out);
  }

 private:
  void DowngradeBodies(Node& node, Scope& scope) {
    auto downgrade = [&](std::shared_ptr<Graph>& body) {
      if (!body) return;
      around_.push_back(body.get());
      body = std::make_shared<Graph>(*body);
      DowngradeGraph(*body, &scope);
      around_.pop_back();
    };
    for (Attribute& attribute : node.attributes) {
      if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute.held)) {
        downgrade(*one);
      } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute.held)) {
        for (auto& body : *many) downgrade(body);
      }
    }
  }

  void Process(Node node, Scope& scope, std::vector<Node>& out, int depth) {
    constexpr int kDeepest = 10;
    auto versions = SchemaVersions(node.domain, node.op_type);
    bool is_onnx = CanonicalDomain(node.domain).empty() && !versions.empty();
    if (!is_onnx || versions.back().since_version <= target_ || depth > kDeepest) {
      out.push_back(std::move(node));
      return;
    }
    std::string place = Describe(node), op = node.op_type;
    RequireArity(node);
    NodeRewrite rewrite(std::move(node), target_, shared_, scope);
    try {
      ApplyRules(rewrite, op);
      const Schema* older = FindSchema("", rewrite.node.op_type, target_);
      if (!rewrite.dropped() && !older)
        Refuse(op, " came with opset ", int64_t{versions.front().since_version}, " and has no equivalent before");
      if (!rewrite.dropped()) DropDefaults(rewrite.node, versions.back(), *older);
    } catch (Error& error) {
      throw error.At(place);
    }
    std::string kept = rewrite.dropped() || rewrite.node.op_type != op ? "" : rewrite.node.outputs.at(0);
    std::vector<Node> made;
    std::move(rewrite).Finish(made);
    for (Node& one : made) {
      bool is_done = one.op_type == op && !one.outputs.empty() && one.outputs[0] == kept && !kept.empty();
      if (is_done)
        out.push_back(std::move(one));
      else
        Process(std::move(one), scope, out, depth + 1);
    }
  }

  void ApplyRules(NodeRewrite& rewrite, const std::string& op) {
    for (std::span<const DowngradeRule> family : Families())
      for (const DowngradeRule& rule : family)
        if (rule.op == op && target_ < rule.since && !rewrite.dropped() && rewrite.node.op_type == op)
          rule.apply(rewrite);
  }

  static void GatherReads(const std::vector<Node>& nodes, std::unordered_set<std::string>& names) {
    for (const Node& node : nodes) {
      names.insert(node.inputs.begin(), node.inputs.end());
      ForEachSubgraph(node, [&](const Graph& body) {
        GatherReads(body.nodes, names);
        for (const ValueInfo& output : body.outputs) names.insert(output.name);
      });
    }
  }

  static std::unordered_set<std::string> Reads(const Graph& graph, const std::vector<Node>& nodes) {
    std::unordered_set<std::string> names;
    GatherReads(nodes, names);
    for (const ValueInfo& output : graph.outputs) names.insert(output.name);
    return names;
  }

  // Constants that became attributes are read by nobody any more.
  static void RemoveUnused(Graph& graph, std::vector<Node>& nodes, const std::unordered_set<std::string>& was_used) {
    std::unordered_set<std::string> used = Reads(graph, nodes);
    std::erase_if(nodes, [&](const Node& node) {
      return node.op_type == "Constant" && node.outputs.size() == 1 && !used.count(node.outputs[0]);
    });
    std::erase_if(graph.initializers, [&](const StoredTensor& tensor) {
      return was_used.count(tensor.name) && !used.count(tensor.name) && !graph.FindInput(tensor.name);
    });
  }

  NameMaker names_;
  RewriteShared shared_;
  std::vector<const Graph*> around_ = {nullptr};  // the main graph and the bodies on the way, as they were inferred
  const std::vector<OpsetImport> opsets_;
  const int64_t target_;
};

}  // namespace

void Downgrade(Model& model, int64_t target, const InferredTypes& inferred) {
  if (target < kOldestTarget || target > NewestOpset(""))
    Fail(ErrorCode::kInvalidArgument, "models can be converted to opsets ", kOldestTarget, " to ", NewestOpset(""),
         ", not ", target);
  Downgrader(model, target, inferred).DowngradeGraph(model.graph, nullptr);
  for (OpsetImport& import : model.opsets)
    if (CanonicalDomain(import.domain).empty()) import.version = target;
}

std::optional<std::vector<int64_t>> ConstantInts(const NodeRewrite& r, size_t i, std::string_view name) {
  if (!r.node.HasInput(i)) return std::nullopt;
  auto constant = r.ConstantOf(r.node.inputs[i]);
  if (!constant) Refuse(name, " is computed while running; the older form needs a constant");
  return ToInt64Vector(*constant);
}

void InputToInts(NodeRewrite& r, size_t i, std::string_view attribute) {
  auto values = ConstantInts(r, i, attribute);
  if (r.node.inputs.size() > i) r.node.inputs.resize(i);
  if (values) r.node.Set(attribute, std::move(*values));
}

size_t RankOf(const NodeRewrite& r, const std::string& value) {
  const SymbolicShape* shape = r.ShapeOf(value);
  if (!shape) Refuse("the rank of '", Printable(value), "' is not known, and the older form needs it");
  return shape->size();
}

void DropInt(NodeRewrite& r, std::string_view attribute, int64_t meaning_nothing) {
  int64_t value = r.node.Int(attribute, meaning_nothing);
  if (value != meaning_nothing) Refuse(attribute, "=", value, " cannot be said at opset ", r.opset);
  r.node.Remove(attribute);
}

void DropString(NodeRewrite& r, std::string_view attribute, std::string_view meaning_nothing) {
  std::string value = r.node.String(attribute, meaning_nothing);
  if (value != meaning_nothing) Refuse(attribute, "='", Printable(value), "' cannot be said at opset ", r.opset);
  r.node.Remove(attribute);
}

void ReplaceBy(NodeRewrite& r, std::string_view op, std::vector<std::string> inputs,
               std::vector<Attribute> attributes) {
  r.After(op, std::move(inputs), r.node.outputs.at(0), std::move(attributes));
  r.Drop();
}

void TrimInputs(Node& node) {
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
}

Attribute CastTo(DType type) { return Attribute("to", static_cast<int64_t>(type)); }

}  // namespace ferry
