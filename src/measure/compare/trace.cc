#include "measure/compare/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/scopes.h"
#include "measure/difference.h"
#include "measure/elements.h"
#include "ops/infer_graph.h"

namespace ferry {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kJump = 8;              // an error this many times that of the inputs is the node's own doing
constexpr double kRounding = 4;          // last places that any correct node may be off
constexpr double kShareOfLargest = 0.1;  // of two suspects, the earlier one unless it does much less harm
constexpr size_t kLayersAtOnce = 400;    // results of one run that are held in memory together
constexpr size_t kMostSuspects = 64;     // each is run on its own

double LastPlace(DType type) {
  switch (type) {
    case DType::kDouble: return 0x1p-53;
    case DType::kFloat16: return 0x1p-11;
    case DType::kBFloat16: return 0x1p-8;
    default: return 0x1p-24;
  }
}

struct Measured {
  double error = 0;
  std::string mismatch;
};

// The largest difference in relation to the largest element that should be there.
Measured MeasureNumbers(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0, distance = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      if (std::isfinite(b[i])) largest = std::max(largest, std::abs(b[i]));
      continue;
    }
    double here = std::abs(a[i] - b[i]);
    if (!std::isfinite(here)) return {kInfinity, "NaN or infinity on one side only"};
    largest = std::max(largest, std::abs(b[i]));
    distance = std::max(distance, here);
  }
  if (distance == 0) return {};
  return {distance / (largest > 0 ? largest : 1.0), {}};
}

Measured Measure(const Value& actual, const Value& expected) {
  if (actual.is_tensor() && expected.is_tensor()) {
    const Tensor &a = actual.tensor(), &b = expected.tensor();
    if (!(a.shape() == b.shape())) return {kInfinity, Cat("shape ", a.shape(), " instead of ", b.shape())};
    bool both_real = a.dtype() != DType::kString && b.dtype() != DType::kString && !IsComplex(a.dtype()) &&
                     !IsComplex(b.dtype()) && IsFloating(a.dtype()) == IsFloating(b.dtype());
    if (both_real) return MeasureNumbers(ToDoubles(a), ToDoubles(b));
  }
  Difference difference = Compare(actual, expected, {0, 0});
  if (!difference.mismatch.empty()) return {kInfinity, difference.mismatch};
  return {difference.outside > 0 ? std::max(difference.max_rel, 1e-3) : 0, {}};
}

ValueRange RangeOf(const std::string& name, const Value& value) {
  ValueRange range;
  range.name = name;
  range.type = ToText(TypeOf(value));
  bool has_numbers =
      value.is_tensor() && value.tensor().dtype() != DType::kString && !IsComplex(value.tensor().dtype());
  if (!has_numbers) return range;
  double sum = 0;
  int64_t finite = 0;
  for (double x : ToDoubles(value.tensor())) {
    if (!std::isfinite(x)) {
      ++range.not_finite;
      continue;
    }
    range.least = finite ? std::min(range.least, x) : x;
    range.largest = finite ? std::max(range.largest, x) : x;
    sum += std::abs(x);
    ++finite;
  }
  if (finite) range.mean_abs = sum / static_cast<double>(finite);
  return range;
}

class Tracer {
 public:
  Tracer(const Side& actual, const Side& expected, NameTrust trust, const std::vector<NamedValue>& inputs)
      : actual_(actual),
        expected_(expected),
        inputs_(inputs),
        match_(MatchGraphs(actual.graph(), expected.graph(), trust)) {
    const Graph& graph = actual.graph();
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      for (const std::string& output : graph.nodes[i].outputs)
        if (!output.empty()) producer_[output] = i;
    for (const ValueInfo& input : graph.inputs) errors_[input.name] = {};
  }

  LayerTrace Trace() {
    LayerTrace trace;
    trace.nodes = actual_.graph().nodes.size();
    MeasureAll();
    FindRelevant();
    for (size_t i = 0; i < trace.nodes; ++i) AddLayer(i, trace.layers);
    if (std::optional<size_t> place = FindFirst(trace.layers)) {
      trace.first = Describe(trace.layers[*place]);
      trace.path = PathFrom(*place, trace.layers);
    }
    return trace;
  }

 private:
  // Values that a session of the other side can be asked for.
  void MeasureAll() {
    std::vector<std::string> names, others;
    auto flush = [&] {
      if (names.empty()) return;
      std::vector<Value> left = actual_.Run(inputs_, names), right = expected_.Run(ExpectedInputs(), others);
      for (size_t k = 0; k < names.size(); ++k) {
        Measured measured = Measure(left[k], right[k]);
        // Two nodes that only have a reader in common need not make the same value.
        if (match_.by_use.count(names[k]) && !measured.mismatch.empty() && !IsOutput(names[k])) continue;
        last_place_[names[k]] = left[k].is_tensor() ? LastPlace(left[k].tensor().dtype()) : 0;
        errors_[names[k]] = std::move(measured);
      }
      names.clear();
      others.clear();
    };
    for (const Node& node : actual_.graph().nodes)
      for (const std::string& output : node.outputs)
        if (const std::string* partner = output.empty() ? nullptr : match_.Find(output)) {
          names.push_back(output);
          others.push_back(*partner);
          if (names.size() == kLayersAtOnce) flush();
        }
    flush();
  }

  bool IsOutput(const std::string& name) const {
    for (const ValueInfo& output : actual_.graph().outputs)
      if (output.name == name) return true;
    return false;
  }

  std::vector<NamedValue> ExpectedInputs() const {
    std::vector<NamedValue> renamed;
    for (const NamedValue& input : inputs_) {
      const std::string* partner = match_.Find(input.first);
      renamed.emplace_back(partner ? *partner : input.first, input.second);
    }
    return renamed;
  }

  // What a node reads, its bodies included, weights left out.
  std::vector<std::string> Reads(const Node& node) const {
    std::vector<std::string> names;
    for (const std::string& input : node.inputs)
      if (!input.empty()) names.push_back(input);
    for (std::string& captured : CapturedNames(node)) names.push_back(std::move(captured));
    return names;
  }

  // The largest error among what a value is made from; where an input has no partner, what that is made from.
  double ErrorBefore(size_t index) {
    auto known = before_.find(index);
    if (known != before_.end()) return known->second;
    double worst = 0;
    for (const std::string& name : Reads(actual_.graph().nodes[index])) {
      auto measured = errors_.find(name);
      auto producer = producer_.find(name);
      if (measured != errors_.end())
        worst = std::max(worst, measured->second.error);
      else if (producer != producer_.end() && producer->second < index)
        worst = std::max(worst, ErrorBefore(producer->second));
    }
    return before_[index] = worst;
  }

  // Nodes that a result which is off depends on; what no such result sees does no harm.
  void FindRelevant() {
    const Graph& graph = actual_.graph();
    std::vector<std::string> wanted;
    for (const ValueInfo& output : graph.outputs) {
      auto measured = errors_.find(output.name);
      if (measured == errors_.end() || measured->second.error > 0) wanted.push_back(output.name);
    }
    relevant_.resize(graph.nodes.size());
    while (!wanted.empty()) {
      auto producer = producer_.find(wanted.back());
      wanted.pop_back();
      if (producer == producer_.end() || relevant_[producer->second]) continue;
      relevant_[producer->second] = true;
      for (std::string& name : Reads(graph.nodes[producer->second])) wanted.push_back(std::move(name));
    }
  }

  void AddLayer(size_t index, std::vector<TracedLayer>& layers) {
    const Node& node = actual_.graph().nodes[index];
    TracedLayer layer{index, node.name, node.op_type, {}, -1, ErrorBefore(index), {}};
    for (const std::string& output : node.outputs) {
      auto measured = output.empty() ? errors_.end() : errors_.find(output);
      if (measured == errors_.end() || measured->second.error <= layer.error) continue;
      layer.value = output;
      layer.error = measured->second.error;
      layer.mismatch = measured->second.mismatch;
    }
    if (layer.error >= 0) layers.push_back(std::move(layer));
  }

  const Node* Partner(size_t index) const {
    auto pair = match_.nodes.find(index);
    return pair == match_.nodes.end() ? nullptr : &expected_.graph().nodes[pair->second];
  }

  // The partner, or the node that makes the corresponding value in another way.
  const Node* MakerOnOtherSide(const TracedLayer& layer) const {
    if (const Node* partner = Partner(layer.node)) return partner;
    const std::string* value = match_.Find(layer.value);
    for (const Node& node : expected_.graph().nodes)
      if (value && std::find(node.outputs.begin(), node.outputs.end(), *value) != node.outputs.end()) return &node;
    return nullptr;
  }

  std::vector<std::string> DifferencesOf(const TracedLayer& layer) const {
    const Node* other = MakerOnOtherSide(layer);
    if (!other || expected_.how().widen != actual_.how().widen) return {};
    return NodeDifferences(actual_.graph(), actual_.graph().nodes[layer.node], expected_.graph(), *other);
  }

  // The error that a node makes when it is given what its partner was given.
  std::optional<double> OwnError(const TracedLayer& layer) const {
    const Node& node = actual_.graph().nodes[layer.node];
    const Node* partner = Partner(layer.node);
    if (!partner || partner->inputs.size() != node.inputs.size() || partner->outputs.size() != node.outputs.size())
      return std::nullopt;
    try {
      std::vector<std::string> asked;
      for (const std::string& name : partner->inputs)
        if (!name.empty()) asked.push_back(name);
      for (const std::string& name : partner->outputs)
        if (!name.empty()) asked.push_back(name);
      std::vector<Value> values = expected_.Run(ExpectedInputs(), asked);
      std::vector<std::string> own_names;
      for (const std::string& name : Reads(node)) own_names.push_back(name);
      std::vector<Value> own = actual_.Run(inputs_, own_names);
      size_t next = 0, next_own = 0;
      std::vector<Value> given;
      for (const std::string& name : node.inputs) {
        if (name.empty()) {
          given.emplace_back();
          continue;
        }
        const Value& mine = own[next_own++];
        const Value& theirs = values[next++];
        given.push_back(IsWeight(name) ? mine : WithFloatsLike(theirs, TypeOf(mine)));
      }
      std::vector<NamedValue> outer;
      for (size_t k = next_own; k < own.size(); ++k) outer.emplace_back(own_names[k], own[k]);
      std::vector<Value> results = actual_.RunNode(node, given, outer);
      double worst = 0;
      for (const Value& result : results) worst = std::max(worst, Measure(result, values[next++]).error);
      return worst;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  bool IsWeight(const std::string& name) const {
    return actual_.graph().FindInitializer(name) && !actual_.graph().FindInput(name);
  }

  std::optional<size_t> FindFirst(const std::vector<TracedLayer>& layers) {
    std::vector<std::pair<size_t, double>> suspects;
    std::optional<size_t> first_different;
    for (size_t place = 0; place < layers.size() && suspects.size() < kMostSuspects; ++place) {
      const TracedLayer& layer = layers[place];
      if (!relevant_[layer.node] || layer.error <= 0 || layer.error <= kJump * layer.input_error) continue;
      if (!first_different && layer.input_error == 0 && Partner(layer.node) && !DifferencesOf(layer).empty())
        first_different = place;
      if (layer.error <= kRounding * last_place_[layer.value]) continue;
      std::optional<double> own = OwnError(layer);
      // An error that the node makes by itself, not one that it only enlarges.
      if (!own || *own >= kShareOfLargest * layer.error) suspects.emplace_back(place, own.value_or(layer.error));
    }
    double largest = 0;
    for (const auto& suspect : suspects) largest = std::max(largest, suspect.second);
    for (const auto& [place, harm] : suspects)
      if (harm >= kShareOfLargest * largest) return place;
    return first_different;
  }

  FaultyLayer Describe(const TracedLayer& layer) {
    const Node& node = actual_.graph().nodes[layer.node];
    FaultyLayer faulty;
    faulty.name = layer.name;
    faulty.op = layer.op;
    faulty.value = layer.value;
    faulty.error = layer.error;
    faulty.input_error = layer.input_error;
    faulty.mismatch = layer.mismatch;
    if (const Node* other = MakerOnOtherSide(layer)) {
      faulty.other_name = other->name;
      faulty.other_op = other->op_type;
    }
    faulty.differences = DifferencesOf(layer);
    faulty.own_error = OwnError(layer);
    std::vector<std::string> names = Reads(node);
    names.push_back(layer.value);
    std::vector<Value> values = actual_.Run(inputs_, names);
    for (size_t i = 0; i + 1 < names.size(); ++i) {
      ValueRange range = RangeOf(names[i], values[i]);
      range.is_weight = IsWeight(names[i]);
      if (auto measured = errors_.find(names[i]); measured != errors_.end()) range.error = measured->second.error;
      faulty.inputs.push_back(std::move(range));
    }
    faulty.output = RangeOf(layer.value, values.back());
    std::string partner = *match_.Find(layer.value);
    faulty.expected = RangeOf(partner, expected_.Run(ExpectedInputs(), std::vector<std::string>{partner})[0]);
    return faulty;
  }

  // Backwards from the worst result along the inputs that are furthest off, then turned round.
  std::vector<size_t> PathFrom(size_t first, const std::vector<TracedLayer>& layers) const {
    std::unordered_map<size_t, size_t> place_of;
    for (size_t place = 0; place < layers.size(); ++place) place_of[layers[place].node] = place;
    std::vector<bool> reached(actual_.graph().nodes.size());  // by the faulty layer
    reached[layers[first].node] = true;
    for (size_t i = layers[first].node + 1; i < reached.size(); ++i)
      for (const std::string& name : Reads(actual_.graph().nodes[i]))
        if (auto producer = producer_.find(name); producer != producer_.end() && reached[producer->second])
          reached[i] = true;
    std::optional<size_t> at;
    double worst = -1;
    for (const ValueInfo& output : actual_.graph().outputs) {
      auto producer = producer_.find(output.name);
      auto measured = errors_.find(output.name);
      if (producer == producer_.end() || measured == errors_.end() || !reached[producer->second]) continue;
      if (measured->second.error > worst) at = producer->second, worst = measured->second.error;
    }
    std::vector<size_t> path;
    while (at) {
      if (auto place = place_of.find(*at); place != place_of.end()) path.push_back(place->second);
      if (*at == layers[first].node) break;
      at = WorstInput(*at, reached);
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  std::optional<size_t> WorstInput(size_t index, const std::vector<bool>& reached) const {
    std::optional<size_t> best;
    double worst = -1;
    for (const std::string& name : Reads(actual_.graph().nodes[index])) {
      auto producer = producer_.find(name);
      if (producer == producer_.end() || producer->second >= index || !reached[producer->second]) continue;
      auto measured = errors_.find(name);
      double error = measured == errors_.end() ? 0 : measured->second.error;
      if (error > worst) best = producer->second, worst = error;
    }
    return best;
  }

  const Side& actual_;
  const Side& expected_;
  const std::vector<NamedValue>& inputs_;
  GraphMatch match_;
  std::unordered_map<std::string, size_t> producer_;
  std::unordered_map<std::string, Measured> errors_;
  std::unordered_map<std::string, double> last_place_;
  std::unordered_map<size_t, double> before_;
  std::vector<bool> relevant_;
};

}  // namespace

LayerTrace TraceLayers(const Side& actual, const Side& expected, NameTrust trust,
                       const std::vector<NamedValue>& inputs) {
  return Tracer(actual, expected, trust, inputs).Trace();
}

}  // namespace ferry
