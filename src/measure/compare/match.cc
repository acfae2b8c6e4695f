#include "measure/compare/match.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "onnx/schema.h"
#include "tensor/tensor.h"

namespace ferry {
namespace {

// One graph with what matching asks of it.
class Indexed {
 public:
  explicit Indexed(const Graph& graph) : graph(graph) {
    for (const ValueInfo& input : graph.inputs) inputs_.insert(input.name);
    for (const StoredTensor& initializer : graph.initializers) constants_.emplace(initializer.name, &initializer);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const std::string& output : graph.nodes[i].outputs)
        if (!output.empty()) producer_.emplace(output, i);
      for (const std::string& input : graph.nodes[i].inputs)
        if (!input.empty()) readers_[input].push_back(i);
    }
  }

  const Graph& graph;

  const Node& node(size_t i) const { return graph.nodes[i]; }
  std::optional<size_t> Producer(const std::string& value) const {
    auto it = producer_.find(value);
    return it == producer_.end() ? std::nullopt : std::optional(it->second);
  }
  const std::vector<size_t>& Readers(const std::string& value) const {
    static const std::vector<size_t> none;
    auto it = readers_.find(value);
    return it == readers_.end() ? none : it->second;
  }
  const StoredTensor* Constant(const std::string& value) const {
    auto it = constants_.find(value);
    return it == constants_.end() || inputs_.count(value) ? nullptr : it->second;
  }
  bool IsActivation(const std::string& value) const { return !value.empty() && !Constant(value); }

 private:
  std::unordered_set<std::string> inputs_;
  std::unordered_map<std::string, const StoredTensor*> constants_;
  std::unordered_map<std::string, size_t> producer_;
  std::unordered_map<std::string, std::vector<size_t>> readers_;
};

bool SameOperator(const Node& a, const Node& b) {
  return a.op_type == b.op_type && CanonicalDomain(a.domain) == CanonicalDomain(b.domain);
}

bool SameTensor(const StoredTensor& a, const StoredTensor& b) {
  if (a.tensor.defined() && b.tensor.defined()) {
    bool same_memory = a.tensor.raw() && a.tensor.raw() == b.tensor.raw() && a.tensor.shape() == b.tensor.shape();
    return (same_memory && a.dtype == b.dtype) || Identical(a.tensor, b.tensor);
  }
  return false;
}

// As few digits as tell the float from its neighbours.
std::string FloatText(float value) {
  char text[32];
  for (int digits = 6; digits <= 9; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, static_cast<double>(value));
    if (std::strtof(text, nullptr) == value) break;
  }
  return text;
}

std::string AttributeText(const Attribute& attribute) {
  const Attribute::Held& held = attribute.held;
  if (auto* number = std::get_if<float>(&held)) return FloatText(*number);
  if (auto* number = std::get_if<int64_t>(&held)) return Cat(*number);
  if (auto* text = std::get_if<std::string>(&held)) return Cat("'", Printable(*text, 60), "'");
  if (auto* list = std::get_if<std::vector<float>>(&held)) {
    std::vector<std::string> texts;
    for (float number : *list) texts.push_back(FloatText(number));
    return Cat("[", Join(texts, ", "), "]");
  }
  if (auto* list = std::get_if<std::vector<int64_t>>(&held)) return Cat("[", Join(*list, ", "), "]");
  if (auto* list = std::get_if<std::vector<std::string>>(&held)) return Cat("[", Join(*list, ", "), "]");
  if (auto* tensor = std::get_if<std::shared_ptr<StoredTensor>>(&held); tensor && *tensor)
    return Cat("a tensor ", (*tensor)->dtype, "[", Join((*tensor)->dims, ", "), "]");
  if (auto* type = std::get_if<Type>(&held)) return ToText(*type);
  return std::holds_alternative<std::shared_ptr<Graph>>(held) ? "a graph" : Name(attribute.type);
}

bool SameGraphs(const Graph& a, const Graph& b);

bool SameAttribute(const Attribute& a, const Attribute& b) {
  if (a.held.index() != b.held.index()) return false;
  if (auto* tensor = std::get_if<std::shared_ptr<StoredTensor>>(&a.held)) {
    const auto& other = std::get<std::shared_ptr<StoredTensor>>(b.held);
    return *tensor && other && SameTensor(**tensor, *other);
  }
  if (auto* graph = std::get_if<std::shared_ptr<Graph>>(&a.held)) {
    const auto& other = std::get<std::shared_ptr<Graph>>(b.held);
    return *graph && other && SameGraphs(**graph, *other);
  }
  return AttributeText(a) == AttributeText(b);
}

// Bodies of the same shape: the same operators in the same order, with the same attributes and constants.
bool SameGraphs(const Graph& a, const Graph& b) {
  if (a.nodes.size() != b.nodes.size() || a.initializers.size() != b.initializers.size()) return false;
  for (size_t i = 0; i < a.nodes.size(); ++i)
    if (!NodeDifferences(a, a.nodes[i], b, b.nodes[i]).empty()) return false;
  return true;
}

class Matcher {
 public:
  Matcher(const Graph& a, const Graph& b) : a_(a), b_(b), taken_(b.nodes.size()) {
    size_t same = 0;
    for (const Node& node : a.nodes) {
      std::optional<size_t> other = node.outputs.empty() ? std::nullopt : b_.Producer(node.outputs[0]);
      same += other && SameOperator(node, b_.node(*other));
    }
    names_tell_ = same * 2 >= a.nodes.size();
  }

  GraphMatch SameModel() {
    for (const ValueInfo& input : a_.graph.inputs) match_.values[input.name] = input.name;
    for (size_t i = 0; i < a_.graph.nodes.size(); ++i)
      for (const std::string& output : a_.node(i).outputs)
        if (std::optional<size_t> other = b_.Producer(output)) {
          match_.values[output] = output;
          if (SameOperator(a_.node(i), b_.node(*other))) match_.nodes[i] = *other;
        }
    return std::move(match_);
  }

  GraphMatch TwoModels() {
    PairByNameOrPosition(a_.graph.inputs, b_.graph.inputs);
    while (MatchForward(Need::kExact) || MatchForward(Need::kSimilar) || MeetAgainByName()) continue;
    PairByNameOrPosition(a_.graph.outputs, b_.graph.outputs);
    MatchBackward();
    MatchNames();
    return std::move(match_);
  }

 private:
  enum class Need : uint8_t { kExact, kSimilar };

  void PairByNameOrPosition(const std::vector<ValueInfo>& a, const std::vector<ValueInfo>& b) {
    std::unordered_set<std::string> names;
    for (const ValueInfo& info : b) names.insert(info.name);
    bool by_name = std::all_of(a.begin(), a.end(), [&](const ValueInfo& info) { return names.count(info.name) > 0; });
    for (size_t i = 0; i < a.size() && (by_name || i < b.size()); ++i) {
      const std::string& other = by_name ? a[i].name : b[i].name;
      bool made_by_node = a_.Producer(a[i].name).has_value();
      if (match_.values.emplace(a[i].name, other).second && made_by_node) match_.by_use.insert(a[i].name);
    }
  }

  bool InputsMatch(const Node& a, const Node& b) const {
    if (a.inputs.size() != b.inputs.size()) return false;
    for (size_t i = 0; i < a.inputs.size(); ++i) {
      if (a.inputs[i].empty() != b.inputs[i].empty()) return false;
      if (a_.IsActivation(a.inputs[i]) != b_.IsActivation(b.inputs[i])) return false;
      if (!a_.IsActivation(a.inputs[i])) continue;
      const std::string* partner = match_.Find(a.inputs[i]);
      if (!partner || *partner != b.inputs[i]) return false;
    }
    return true;
  }

  // Nodes of the second graph that stand where node i of the first one does.
  std::vector<size_t> Candidates(size_t i) const {
    const Node& node = a_.node(i);
    std::vector<size_t> found;
    auto consider = [&](size_t other) {
      if (!taken_[other] && InputsMatch(node, b_.node(other))) found.push_back(other);
    };
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      if (!a_.IsActivation(node.inputs[slot])) continue;
      const std::string* partner = match_.Find(node.inputs[slot]);
      if (!partner) return {};
      for (size_t reader : b_.Readers(*partner)) consider(reader);
      return found;
    }
    for (size_t other = 0; other < b_.graph.nodes.size(); ++other) consider(other);
    return found;
  }

  static bool SameName(const Node& a, const Node& b) {
    return (!a.name.empty() && a.name == b.name) ||
           (!a.outputs.empty() && !b.outputs.empty() && a.outputs[0] == b.outputs[0]);
  }

  int Likeness(const Node& a, const Node& b) const {
    int likeness = 2 * SameName(a, b) + NodeDifferences(a_.graph, a, b_.graph, b).empty();
    bool same_sizes = true;
    for (size_t i = 0; i < a.inputs.size(); ++i) {
      const StoredTensor *x = a_.Constant(a.inputs[i]), *y = b_.Constant(b.inputs[i]);
      if (x && y) same_sizes = same_sizes && x->dims == y->dims && x->dtype == y->dtype;
    }
    return likeness + 4 * same_sizes;
  }

  // Nodes that differ but stand in the same place. Where another node makes the value of that name, that one is meant.
  bool MayStandFor(const Node& a, const Node& b) const {
    bool has_namesake = names_tell_ && !a.outputs.empty() && b_.Producer(a.outputs[0]);
    if (has_namesake) return !b.outputs.empty() && a.outputs[0] == b.outputs[0];
    return SameName(a, b) || SameOperator(a, b);
  }

  bool MatchForward(Need need) {
    bool changed = false;
    for (size_t i = 0; i < a_.graph.nodes.size(); ++i) {
      if (match_.nodes.count(i)) continue;
      std::optional<size_t> best;
      int best_likeness = -1;
      for (size_t other : Candidates(i)) {
        const Node &a = a_.node(i), &b = b_.node(other);
        bool fits = need == Need::kExact ? SameOperator(a, b) : MayStandFor(a, b);
        if (!fits) continue;
        if (need == Need::kExact && !NodeDifferences(a_.graph, a, b_.graph, b).empty()) continue;
        int likeness = Likeness(a, b);
        if (likeness > best_likeness) best = other, best_likeness = likeness;
      }
      if (!best) continue;
      Pair(i, *best);
      changed = true;
      if (need == Need::kSimilar) return true;  // exact ones first again
    }
    return changed;
  }

  // Past a place where the models say the same in other operators: the first value that has its name on both sides.
  bool MeetAgainByName() {
    if (!names_tell_) return false;
    for (size_t i = 0; i < a_.graph.nodes.size(); ++i) {
      if (match_.nodes.count(i)) continue;
      for (const std::string& output : a_.node(i).outputs) {
        std::optional<size_t> other = output.empty() ? std::nullopt : b_.Producer(output);
        if (!other || taken_[*other] || !match_.values.emplace(output, output).second) continue;
        match_.by_use.insert(output);
        return true;
      }
    }
    return false;
  }

  void Pair(size_t i, size_t other) {
    match_.nodes[i] = other;
    taken_[other] = true;
    const Node &a = a_.node(i), &b = b_.node(other);
    for (size_t k = 0; k < a.outputs.size() && k < b.outputs.size(); ++k)
      if (!a.outputs[k].empty() && !b.outputs[k].empty()) {
        match_.values.emplace(a.outputs[k], b.outputs[k]);
        match_.by_use.erase(a.outputs[k]);
      }
  }

  // From results towards inputs: what the same input of two corresponding nodes reads corresponds.
  void MatchBackward() {
    for (size_t i = a_.graph.nodes.size(); i-- > 0;) {
      const Node& node = a_.node(i);
      auto pair = match_.nodes.find(i);
      if (pair == match_.nodes.end()) {
        std::optional<size_t> other = PartnerByOutput(node);
        if (!other || taken_[*other] || !SameOperator(node, b_.node(*other)) ||
            node.inputs.size() != b_.node(*other).inputs.size())
          continue;
        Pair(i, *other);
        pair = match_.nodes.find(i);
      }
      const Node& other = b_.node(pair->second);
      for (size_t k = 0; k < node.inputs.size() && k < other.inputs.size(); ++k)
        if (a_.IsActivation(node.inputs[k]) && b_.IsActivation(other.inputs[k]) &&
            match_.values.emplace(node.inputs[k], other.inputs[k]).second)
          match_.by_use.insert(node.inputs[k]);
    }
  }

  std::optional<size_t> PartnerByOutput(const Node& node) const {
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (const std::string* partner = match_.Find(node.outputs[k])) {
        std::optional<size_t> other = b_.Producer(*partner);
        bool same_place = other && k < b_.node(*other).outputs.size() && b_.node(*other).outputs[k] == *partner;
        if (same_place) return other;
      }
    return std::nullopt;
  }

  // What neither direction reached, where name and operator agree.
  void MatchNames() {
    for (size_t i = 0; i < a_.graph.nodes.size(); ++i) {
      const Node& node = a_.node(i);
      if (match_.nodes.count(i) || node.outputs.empty() || match_.values.count(node.outputs[0])) continue;
      std::optional<size_t> other = b_.Producer(node.outputs[0]);
      if (other && !taken_[*other] && SameOperator(node, b_.node(*other))) Pair(i, *other);
    }
  }

  Indexed a_, b_;
  std::vector<bool> taken_;
  bool names_tell_ = false;  // most nodes of the first graph have a namesake with the same operator in the second
  GraphMatch match_;
};

// Leaving an attribute out says the same as writing its default.
bool SaysTheDefault(const Node& node, const Attribute& attribute) {
  const Schema* schema = FindSchema(node.domain, node.op_type, NewestOpset(node.domain));
  const SchemaAttribute* known = schema ? schema->FindAttribute(attribute.name) : nullptr;
  return known && known->has_default() && SameAttribute(attribute, Attribute(attribute.name, known->Default()));
}

void CompareWeights(const Graph& a, const Node& node_a, const Graph& b, const Node& node_b,
                    std::vector<std::string>& differences) {
  for (size_t i = 0; i < node_a.inputs.size() && i < node_b.inputs.size(); ++i) {
    const StoredTensor *x = a.FindInitializer(node_a.inputs[i]), *y = b.FindInitializer(node_b.inputs[i]);
    if (!x || !y || SameTensor(*x, *y)) continue;
    if (x->dtype != y->dtype || x->dims != y->dims)
      differences.push_back(Cat("input ", i, " '", Printable(x->name, 60), "': ", x->dtype, "[", Join(x->dims, ", "),
                                "] instead of ", y->dtype, "[", Join(y->dims, ", "), "]"));
    else
      differences.push_back(Cat("input ", i, " '", Printable(x->name, 60), "': the weights differ"));
  }
}

}  // namespace

std::vector<std::string> NodeDifferences(const Graph& a, const Node& node_a, const Graph& b, const Node& node_b) {
  std::vector<std::string> differences;
  if (!SameOperator(node_a, node_b))
    differences.push_back(Cat("operator ", node_a.op_type, " instead of ", node_b.op_type));
  for (const Attribute& attribute : node_a.attributes) {
    const Attribute* other = node_b.Find(attribute.name);
    if (other ? SameAttribute(attribute, *other) : SaysTheDefault(node_a, attribute)) continue;
    differences.push_back(Cat("attribute ", attribute.name, ": ", AttributeText(attribute), " instead of ",
                              other ? AttributeText(*other) : std::string("nothing")));
  }
  for (const Attribute& attribute : node_b.attributes)
    if (!node_a.Has(attribute.name) && !SaysTheDefault(node_b, attribute))
      differences.push_back(Cat("attribute ", attribute.name, ": nothing instead of ", AttributeText(attribute)));
  CompareWeights(a, node_a, b, node_b, differences);
  return differences;
}

GraphMatch MatchGraphs(const Graph& a, const Graph& b, NameTrust trust) {
  Matcher matcher(a, b);
  return trust == NameTrust::kSameModel ? matcher.SameModel() : matcher.TwoModels();
}

}  // namespace ferry
