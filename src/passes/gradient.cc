#include "passes/gradient.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "ops/operator.h"
#include "passes/gradient_builder.h"

namespace ferry {
namespace {

bool IsGradient(const Node& node) { return node.op_type == "Gradient" && node.domain == kTrainingDomain; }

const GradientRule* FindRule(const Node& node) {
  if (!CanonicalDomain(node.domain).empty()) return nullptr;
  for (auto rules :
       {ElementwiseGradients(), ShapeGradients(), ReductionGradients(), LinearGradients(), NetworkGradients()})
    for (const GradientRule& rule : rules)
      if (rule.op == node.op_type) return &rule;
  return nullptr;
}

// The part of a graph that computes `y` from the variables, in order, and how the Gradient node takes it apart.
class Differentiation {
 public:
  Differentiation(Graph& graph, size_t position, NameMaker& names)
      : graph_(graph), position_(position), gradient_(graph.nodes[position]), names_(names) {
    xs_ = gradient_.Strings("xs");
    variables_ = xs_;
    for (std::string& z : gradient_.Strings("zs")) variables_.push_back(std::move(z));
    y_ = gradient_.String("y", "");
    auto require = [&](bool ok, const auto&... what) {
      if (!ok) Fail(ErrorCode::kInvalidModel, Describe(gradient_), ": ", what...);
    };
    require(!xs_.empty() && !y_.empty(), "attributes 'xs' and 'y' must name the variables and the result");
    require(gradient_.inputs.size() == variables_.size(), "there are ", gradient_.inputs.size(), " inputs for ",
            variables_.size(), " names in 'xs' and 'zs'");
    require(gradient_.outputs.size() <= xs_.size(), "there are ", gradient_.outputs.size(), " outputs for ", xs_.size(),
            " names in 'xs'");
  }

  // The nodes that stand for the Gradient node.
  std::vector<Node> Expand();

 private:
  void FindForwardNodes();
  bool ForwardIsAtHand() const;
  void CloneForward();
  void MarkActive();
  void GoBack(GradientBuilder& builder);
  void Differentiate(GradientBuilder& builder, Node& node);
  void AddTo(GradientBuilder& builder, const std::string& name, const std::string& gradient);

  Graph& graph_;
  size_t position_;
  Node gradient_;
  NameMaker& names_;
  std::vector<std::string> xs_, variables_;
  std::string y_;
  std::vector<size_t> forward_;                             // indices into the graph's nodes
  std::vector<Node> nodes_;                                 // the expansion
  size_t cloned_ = 0;                                       // how many of nodes_ repeat the forward computation
  std::unordered_set<std::string> active_;                  // values that change with a variable in xs
  std::unordered_map<std::string, std::string> gradients_;  // of values, by name
};

// Walks from y to the variables; nodes come out in the order of the graph, which is an order of execution.
void Differentiation::FindForwardNodes() {
  std::unordered_map<std::string, size_t> producer;
  for (size_t i = 0; i < graph_.nodes.size(); ++i)
    for (const std::string& output : graph_.nodes[i].outputs)
      if (!output.empty()) producer.emplace(output, i);
  std::unordered_set<std::string> seen(variables_.begin(), variables_.end());
  std::unordered_set<size_t> needed;
  std::vector<std::string> pending{y_};
  while (!pending.empty()) {
    std::string name = std::move(pending.back());
    pending.pop_back();
    auto it = producer.find(name);
    if (name.empty() || !seen.insert(name).second || it == producer.end()) continue;
    if (it->second == position_)
      Fail(ErrorCode::kInvalidModel, Describe(gradient_), ": '", y_, "' depends on its own gradient");
    needed.insert(it->second);
    for (const std::string& input : graph_.nodes[it->second].inputs) pending.push_back(input);
  }
  forward_.assign(needed.begin(), needed.end());
  std::sort(forward_.begin(), forward_.end());
}

// True when the values of the forward computation are those the gradient is taken at, and are there already.
bool Differentiation::ForwardIsAtHand() const {
  return gradient_.inputs == variables_ && (forward_.empty() || forward_.back() < position_);
}

// The gradient is asked for at other values than the graph's own: compute forward from those, under new names.
void Differentiation::CloneForward() {
  std::unordered_map<std::string, std::string> renamed;
  for (size_t i = 0; i < variables_.size(); ++i) renamed[variables_[i]] = gradient_.inputs[i];
  auto rename = [&](std::string& name) {
    if (auto it = renamed.find(name); it != renamed.end()) name = it->second;
  };
  for (size_t index : forward_) {
    Node node = graph_.nodes[index];
    bool has_body = false;
    ForEachSubgraph(node, [&](const Graph&) { has_body = true; });
    if (has_body) Fail(ErrorCode::kUnsupported, Describe(node), ": its gradient cannot be computed: it has a body");
    for (std::string& input : node.inputs) rename(input);
    for (std::string& output : node.outputs) {
      if (output.empty()) continue;
      std::string fresh = names_.Make(output + "_again");
      renamed[output] = fresh;
      output = fresh;
    }
    node.name = names_.Make(node.name + "_again");
    nodes_.push_back(std::move(node));
  }
  cloned_ = nodes_.size();
  for (std::string& x : xs_) rename(x);
  rename(y_);
}

void Differentiation::MarkActive() {
  for (size_t i = 0; i < xs_.size(); ++i)
    if (gradient_.HasOutput(i)) active_.insert(xs_[i]);
  auto visit = [&](const Node& node) {
    bool changes =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](const auto& name) { return active_.count(name); });
    if (!changes) return;
    const GradientRule* rule = FindRule(node);
    if (rule && !rule->apply) return;
    for (const std::string& output : node.outputs) active_.insert(output);
  };
  if (cloned_ > 0)
    for (const Node& node : nodes_) visit(node);
  else
    for (size_t index : forward_) visit(graph_.nodes[index]);
}

void Differentiation::AddTo(GradientBuilder& builder, const std::string& name, const std::string& gradient) {
  auto [it, fresh] = gradients_.emplace(name, gradient);
  if (!fresh) it->second = builder.Add(it->second, gradient);
}

void Differentiation::Differentiate(GradientBuilder& builder, Node& node) {
  std::vector<std::string> output_gradients;
  bool any = false;
  for (const std::string& output : node.outputs) {
    auto it = gradients_.find(output);
    output_gradients.push_back(it == gradients_.end() ? std::string() : it->second);
    any |= !output_gradients.back().empty();
  }
  std::vector<bool> needed;
  bool needs = false;
  for (const std::string& input : node.inputs) {
    needed.push_back(!input.empty() && active_.count(input) > 0);
    needs |= needed.back();
  }
  const GradientRule* rule = FindRule(node);
  if (!any || !needs || (rule && !rule->apply)) return;
  if (!rule) Fail(ErrorCode::kUnsupported, Describe(node), ": there is no rule for the gradient of this operator");
  GradientContext context(builder, node, std::move(output_gradients), std::move(needed));
  rule->apply(context);
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (!context.input_gradients()[i].empty()) AddTo(builder, node.inputs[i], context.input_gradients()[i]);
}

void Differentiation::GoBack(GradientBuilder& builder) {
  if (active_.count(y_)) gradients_[y_] = builder.FilledLike(y_, 1);
  if (cloned_ > 0) {
    // nodes_ grows while the rules run: keep the forward nodes apart.
    std::vector<Node> forward(nodes_.begin(), nodes_.begin() + static_cast<std::ptrdiff_t>(cloned_));
    for (size_t i = forward.size(); i-- > 0;) {
      Differentiate(builder, forward[i]);
      nodes_[i] = forward[i];
    }
  } else {
    for (size_t i = forward_.size(); i-- > 0;) Differentiate(builder, graph_.nodes[forward_[i]]);
  }
}

std::vector<Node> Differentiation::Expand() {
  FindForwardNodes();
  if (!ForwardIsAtHand()) CloneForward();
  MarkActive();
  // Inference must know the clones as well.
  Graph known = graph_;
  known.nodes.erase(std::remove_if(known.nodes.begin(), known.nodes.end(), IsGradient), known.nodes.end());
  known.nodes.insert(known.nodes.end(), nodes_.begin(), nodes_.end());
  GraphFacts facts = InferGraph(known, {}, {.on_error = [](const Node&, const Error&) {}});
  GradientBuilder builder(names_, facts, nodes_);
  GoBack(builder);
  for (size_t i = 0; i < gradient_.outputs.size(); ++i) {
    if (!gradient_.HasOutput(i)) continue;
    auto it = gradients_.find(xs_[i]);
    std::string result = it == gradients_.end() ? builder.FilledLike(xs_[i], 0) : it->second;
    Node identity;
    identity.op_type = "Identity";
    identity.name = names_.Make(gradient_.name + "_output");
    identity.inputs = {result};
    identity.outputs = {gradient_.outputs[i]};
    nodes_.push_back(std::move(identity));
  }
  return std::move(nodes_);
}

bool ExpandIn(Graph& graph, NameMaker& names) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (Attribute& attribute : graph.nodes[i].attributes)
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body)
        changed |= ExpandIn(**body, names);
    if (!IsGradient(graph.nodes[i])) continue;
    std::vector<Node> expansion = Differentiation(graph, i, names).Expand();
    auto at = graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
    graph.nodes.insert(at, std::make_move_iterator(expansion.begin()), std::make_move_iterator(expansion.end()));
    i += expansion.size();
    --i;
    changed = true;
  }
  return changed;
}

}  // namespace

bool ExpandGradients(Model& model) {
  NameMaker names(model);
  return ExpandIn(model.graph, names);
}

}  // namespace ferry
