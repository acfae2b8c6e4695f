#include "providers/cpu/image_chains.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "graph/scopes.h"
#include "graph/standard.h"
#include "ops/traits.h"

namespace ferry {
namespace {

// What one core may count on to keep of a cache that it shares with others.
constexpr int64_t kCacheBytes = 8 << 20;

bool TreatsImagesAlone(const Node& node) {
  if (IsStandard(node, {"Concat", "Split"})) return node.Int("axis", 0) > 0;
  const Operator& op = TraitsOf(node);
  return op.per_image || (op.elementwise != Elementwise::kNo && !op.is_view);
}

std::optional<Shape> FloatShape(const ValueFacts* facts) {
  if (!facts || facts->type.dtype != DType::kFloat || !facts->type.shape) return std::nullopt;
  return ToConcrete(*facts->type.shape);
}

// What a node moves through the cache, when it treats the images of a batch alone.
struct Traffic {
  int64_t images = 0;  // 0: it does not, or nobody knows
  int64_t batch_bytes = 0, weight_bytes = 0;

  // Bytes that need not come from afar when images go one by one, less those of weights that are read again for each.
  int64_t Gain() const {
    const bool pays = batch_bytes > kCacheBytes && batch_bytes / images <= kCacheBytes;
    return (pays ? batch_bytes : 0) - images * weight_bytes;
  }
};

Traffic TrafficOf(const Node& node, const OuterFacts& facts) {
  if (!TreatsImagesAlone(node)) return {};
  Traffic traffic;
  size_t rank = 0;
  auto add = [&](const std::string& name) {
    const std::optional<Shape> shape = FloatShape(facts(name));
    if (!shape || shape->rank() < 3 || (rank > 0 && (shape->rank() != rank || (*shape)[0] != traffic.images)))
      return false;
    rank = shape->rank();
    traffic.images = (*shape)[0];
    traffic.batch_bytes += shape->ElementCount() * 4;
    return true;
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty()) continue;
    const ValueFacts* known = facts(node.inputs[i]);
    if (!known || !known->constant) {
      if (!add(node.inputs[i])) return {};
      continue;
    }
    // Weights and limits are the same for all images; other constants must not have a part for each.
    const Tensor& constant = *known->constant;
    const bool is_weight = Includes(TraitsOf(node).reads_anywhere, i);
    if (!is_weight && constant.rank() > 1 && constant.dim(0) != 1) return {};
    traffic.weight_bytes += static_cast<int64_t>(constant.bytes());
  }
  for (const std::string& output : node.outputs)
    if (!output.empty() && !add(output)) return {};
  return traffic;
}

class ChainFinder {
 public:
  ChainFinder(std::span<const Node* const> nodes, const OuterFacts& facts, const std::vector<std::string>& results)
      : nodes_(nodes), facts_(facts), results_(results.begin(), results.end()) {}

  std::vector<ImageChain> Find() const {
    std::vector<ImageChain> chains;
    for (size_t first = 0; first < nodes_.size();) {
      const size_t last = End(first);
      if (last > first) chains.push_back(Describe(first, last));
      first = std::max(first + 1, last);
    }
    return chains;
  }

 private:
  // The end of the chain from here on that gains most; `first` when none gains.
  size_t End(size_t first) const {
    const int64_t images = TrafficOf(*nodes_[first], facts_).images;
    size_t best = first;
    int64_t sum = 0, most = 0;
    for (size_t i = first; images > 1 && i < nodes_.size(); ++i) {
      const Traffic traffic = TrafficOf(*nodes_[i], facts_);
      if (traffic.images != images) break;
      sum += traffic.Gain();
      if (sum <= 0) break;
      if (sum > most) most = sum, best = i + 1;
    }
    return best;
  }

  // As many images at a time as fit and as divide the batch.
  int64_t TurnOf(size_t first, size_t last) const {
    int64_t most = 1, images = 1;
    for (size_t i = first; i < last; ++i) {
      const Traffic traffic = TrafficOf(*nodes_[i], facts_);
      images = traffic.images;
      most = std::max(most, traffic.batch_bytes / images);
    }
    int64_t turn = std::clamp<int64_t>(kCacheBytes / most, 1, images);
    while (images % turn != 0) --turn;
    return turn;
  }

  ImageChain Describe(size_t first, size_t last) const {
    ImageChain chain{first, last, TurnOf(first, last), {}, {}, {}};
    std::unordered_set<std::string> read = results_;
    for (size_t i = last; i < nodes_.size(); ++i) {
      read.insert(nodes_[i]->inputs.begin(), nodes_[i]->inputs.end());
      for (const std::string& name : CapturedNames(*nodes_[i])) read.insert(name);
    }
    for (size_t i = first; i < last; ++i) {
      for (const std::string& name : nodes_[i]->inputs)
        if (DescribeOne(name, chain)) chain.inputs.push_back(name);
      for (const std::string& name : nodes_[i]->outputs) {
        if (name.empty()) continue;
        DescribeOne(name, chain);
        if (read.count(name)) chain.outputs.push_back(name);
      }
    }
    return chain;
  }

  // False when it is described already or the same for all images.
  bool DescribeOne(const std::string& name, ImageChain& chain) const {
    if (name.empty() || chain.facts.count(name) || facts_(name)->constant) return false;
    Type type = facts_(name)->type;
    type.shape->front() = Dim(chain.images);
    chain.facts[name].type = std::move(type);
    return true;
  }

  std::span<const Node* const> nodes_;
  const OuterFacts& facts_;
  std::unordered_set<std::string> results_;
};

}  // namespace

std::vector<ImageChain> FindImageChains(std::span<const Node* const> nodes, const OuterFacts& facts,
                                        const std::vector<std::string>& results) {
  return ChainFinder(nodes, facts, results).Find();
}

}  // namespace ferry
