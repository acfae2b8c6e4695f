#include "measure/randomness.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/standard.h"
#include "measure/elements.h"
#include "ops/traits.h"

namespace ferry {
namespace {

constexpr RandomRange kZeroOrOne{.least = 0, .most = 1, .whole = true};

bool DrawsFreely(const Node& node) {
  if (!TraitsOf(node).is_random) return false;
  bool drops = node.op_type == "Dropout";
  return !drops || (node.HasInput(2) && !node.Has("seed"));
}

bool AnyDrawsFreely(const std::vector<Node>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
    bool inside = false;
    ForEachSubgraph(node, [&](const Graph& body) { inside = inside || AnyDrawsFreely(body.nodes); });
    return inside || DrawsFreely(node);
  });
}

RandomRange RangeOfDraw(const Node& node) {
  if (node.op_type == "Bernoulli") return kZeroOrOne;
  if (node.op_type == "Multinomial") return {.least = 0, .whole = true};
  if (IsOneOf(node.op_type, {"RandomUniform", "RandomUniformLike"}))
    return {.least = node.Float("low", 0), .most = node.Float("high", 1)};
  return {};
}

bool GivesBools(const Node& node) {
  return IsOneOf(node.op_type,
                 {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or", "Xor", "Not"});
}

// Only values that are passed on unchanged keep their range; arithmetic on a draw can give anything.
bool PassesOn(const Node& node, const std::string& value) {
  return value == node.inputs[0] && (TraitsOf(node).moves_elements || IsStandard(node, {"Cast", "CastLike"}));
}

class Finder {
 public:
  explicit Finder(const Model& model) : model_(model) {
    for (const Node& node : model.graph.nodes) Visit(node);
  }
  std::map<std::string, RandomRange> found;

 private:
  void Visit(const Node& node) {
    if (std::optional<RandomRange> range = RangeOf(node))
      for (const std::string& output : node.outputs) found[output] = *range;
  }

  std::optional<RandomRange> RangeOf(const Node& node) const {
    if (DrawsFreely(node)) return RangeOfDraw(node);
    if (AnyDrawsFreely({node})) return RandomRange{};
    const Function* function = model_.FindFunction(node.domain, node.op_type, node.overload);
    if (function && AnyDrawsFreely(function->nodes)) return RandomRange{};
    for (const std::string& input : node.inputs) {
      auto it = found.find(input);
      if (it == found.end()) continue;
      if (GivesBools(node)) return kZeroOrOne;
      return PassesOn(node, input) ? it->second : RandomRange{};
    }
    return std::nullopt;
  }

  const Model& model_;
};

}  // namespace

std::map<std::string, RandomRange> FindRandomValues(const Model& model) { return Finder(model).found; }

std::string ExplainBadDraw(const Value& actual, const Value& recorded, const RandomRange& range) {
  if (!actual.is_tensor() || !recorded.is_tensor())
    return actual.is_tensor() == recorded.is_tensor() ? ""
                                                      : Cat(actual.KindName(), " instead of ", recorded.KindName());
  const Tensor& drawn = actual.tensor();
  const Tensor& like = recorded.tensor();
  if (drawn.dtype() != like.dtype()) return Cat("element type ", drawn.dtype(), " instead of ", like.dtype());
  if (!(drawn.shape() == like.shape())) return Cat("shape ", drawn.shape(), " instead of ", like.shape());
  if (drawn.dtype() == DType::kString || IsComplex(drawn.dtype())) return {};
  for (double value : ToDoubles(drawn))
    if (!(value >= range.least && value <= range.most) || (range.whole && value != std::floor(value)))
      return Cat("the random value ", value, " is not among those it may take");
  return {};
}

}  // namespace ferry
