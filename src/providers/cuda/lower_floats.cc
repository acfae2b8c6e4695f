#include "providers/cuda/lower_floats.h"

#include <deque>
#include <unordered_set>

#include "graph/scopes.h"
#include "ops/support/cast_tensor.h"
#include "tensor/alignment.h"

namespace ferry::cuda {
namespace {

// Inputs that say how something is done, not what it is done with.
bool IsSetting(const Node& node, size_t input) { return node.op_type == "Resize" && (input == 1 || input == 2); }

class Lowering {
 public:
  Lowering(Graph& graph, GraphFacts& facts, DType type, LoweredWeights& weights)
      : graph_(graph), facts_(facts), type_(type), weights_(weights) {
    for (const ValueInfo& output : graph.outputs) keeps_type_.insert(output.name);
    for (const Node& node : graph.nodes)
      for (const std::string& name : CapturedNames(node)) keeps_type_.insert(name);
  }

  void Run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) Visit(std::move(node));
  }

 private:
  const ValueFacts* Facts(const std::string& name) const { return name.empty() ? nullptr : facts_.Find(name); }
  bool IsFloat(const std::string& name) const {
    const ValueFacts* facts = Facts(name);
    return facts && facts->type.is_tensor() && facts->type.dtype == DType::kFloat;
  }
  bool IsLow(const std::string& name) const { return low_.count(name) > 0; }

  void AddCast(const std::string& from, const std::string& to, DType type) {
    Node cast;
    cast.op_type = "Cast";
    cast.name = to;
    cast.inputs = {from};
    cast.outputs = {to};
    cast.Set("to", static_cast<int64_t>(type));
    graph_.nodes.push_back(std::move(cast));
  }

  ValueFacts Lowered(const ValueFacts& facts) const {
    ValueFacts lowered;
    lowered.type = facts.type;
    lowered.type.dtype = type_;
    return lowered;
  }

  void Visit(Node node) {
    for (std::string& input : node.inputs)
      if (auto known = renamed_.find(input); known != renamed_.end()) input = known->second;
    const Operator* op = FindOperator(node.domain, node.op_type);
    if (op && op->is_view && node.HasInput(0)) {
      const bool is_low = IsLow(node.inputs[0]);
      return is_low ? Put(std::move(node)) : graph_.nodes.push_back(std::move(node));
    }
    if (op && !op->has_subgraphs && Mentions(node) && IsTaken(node, *op)) return Lower(std::move(node));
    for (std::string& input : node.inputs)
      if (IsLow(input)) input = InFloat(input);
    graph_.nodes.push_back(std::move(node));
  }

  bool Mentions(const Node& node) const {
    for (const std::string& name : node.inputs)
      if (IsFloat(name) || IsLow(name)) return true;
    for (const std::string& name : node.outputs)
      if (IsFloat(name)) return true;
    return false;
  }

  // Whether the device has a kernel for the node in the lower type.
  bool IsTaken(Node node, const Operator& op) {
    if (node.op_type == "Cast" && CanonicalDomain(node.domain).empty() && IsFloat(node.outputs[0]))
      node.Set("to", static_cast<int64_t>(type_));
    std::deque<ValueFacts> made;
    std::vector<const ValueFacts*> inputs, outputs;
    auto find = [&](const std::string& name, bool is_setting) -> const ValueFacts* {
      const ValueFacts* facts = Facts(name);
      if (!facts || is_setting || !IsFloat(name)) return facts;
      made.push_back(Lowered(*facts));
      if (facts->constant) made.back().constant = weights_.Get(*facts->constant, type_);
      return &made.back();
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(find(node.inputs[i], IsSetting(node, i)));
    for (const std::string& name : node.outputs) outputs.push_back(find(name, false));
    WeightCache none;
    const KernelRequest request{node, op, inputs, outputs, none};
    return ChooseOperator({request, {}}).has_value();
  }

  void Lower(Node node) {
    if (node.op_type == "Cast" && CanonicalDomain(node.domain).empty() && IsFloat(node.outputs[0]))
      node.Set("to", static_cast<int64_t>(type_));
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (IsFloat(node.inputs[i]) && !IsSetting(node, i)) node.inputs[i] = InLow(node.inputs[i]);
    Put(std::move(node));
  }

  // With outputs in the lower type. Those of the model, and what bodies read, are converted back under their own names.
  void Put(Node node) {
    std::vector<std::pair<std::string, std::string>> back;
    for (std::string& output : node.outputs) {
      if (!IsFloat(output)) continue;
      const ValueFacts lowered = Lowered(*Facts(output));
      if (keeps_type_.count(output)) {
        const std::string name = Fresh(output);
        renamed_[output] = name;
        back.emplace_back(name, std::exchange(output, name));
      }
      facts_.values[output] = lowered;
      low_.insert(output);
    }
    graph_.nodes.push_back(std::move(node));
    for (const auto& [from, to] : back) AddCast(from, to, DType::kFloat);
  }

  std::string Fresh(const std::string& name) const {
    std::string fresh = Cat(name, " as ", type_);
    while (facts_.Find(fresh)) fresh += "'";
    return fresh;
  }

  std::string InLow(const std::string& name) {
    auto [known, is_new] = in_low_.try_emplace(name);
    if (!is_new) return known->second;
    known->second = Fresh(name);
    const ValueFacts facts = *Facts(name);
    ValueFacts& lowered = facts_.values[known->second] = Lowered(facts);
    if (facts.constant) {
      lowered.constant = weights_.Get(*facts.constant, type_);
      graph_.initializers.push_back(MakeStored(known->second, *lowered.constant));
    } else {
      AddCast(name, known->second, type_);
      low_.insert(known->second);
    }
    return known->second;
  }

  std::string InFloat(const std::string& name) {
    auto [known, is_new] = in_float_.try_emplace(name);
    if (!is_new) return known->second;
    known->second = Cat(Fresh(name), " and back");
    ValueFacts facts;
    facts.type = Facts(name)->type;
    facts.type.dtype = DType::kFloat;
    facts_.values[known->second] = std::move(facts);
    AddCast(name, known->second, DType::kFloat);
    return known->second;
  }

  Graph& graph_;
  GraphFacts& facts_;
  const DType type_;
  LoweredWeights& weights_;
  std::unordered_set<std::string> keeps_type_, low_;
  std::map<std::string, std::string> renamed_, in_low_, in_float_;
};

}  // namespace

Tensor LoweredWeights::Get(const Tensor& weight, DType type) {
  constexpr size_t kLarge = 16 << 10;
  if (weight.bytes() < kLarge) return CastTensor(Readable(weight), type);
  std::lock_guard lock(mutex_);
  Kept& kept = large_[weight.address()];
  if (!kept.weight.defined() || !(kept.lowered.shape() == weight.shape()) || kept.lowered.dtype() != type)
    kept = {weight, CastTensor(Readable(weight), type)};
  return kept.lowered;
}

void LowerFloats(Graph& graph, GraphFacts& facts, DType type, LoweredWeights& weights) {
  Lowering(graph, facts, type, weights).Run();
}

}  // namespace ferry::cuda
