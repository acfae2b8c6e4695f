#include "providers/cuda/fuse_chains.h"

#include <algorithm>

#include "graph/editor.h"
#include "providers/cuda/operators.h"

namespace ferry::cuda {
namespace {

// Parameters of a kernel are limited, and so is what a thread can hold.
constexpr size_t kMostNodes = 24, kMostInputs = 12;

class ChainFuser {
 public:
  ChainFuser(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    const size_t count = editor_.size();
    for (size_t i = 0; i < count; ++i) chainable_.push_back(IsPartOfChain(editor_.node(i)));
    // From the last to the first: a chain is taken from its end.
    for (size_t i = count; i-- > 0;)
      if (chainable_[i] && !editor_.removed(i)) FuseEndingAt(i);
    return editor_.Finish();
  }

 private:
  const ValueFacts* Facts(const std::string& name) const { return name.empty() ? nullptr : facts_.Find(name); }

  std::optional<Shape> ShapeOf(const std::string& name) const {
    const ValueFacts* facts = Facts(name);
    return facts && facts->type.is_tensor() && facts->type.shape ? ToConcrete(*facts->type.shape) : std::nullopt;
  }

  bool IsPartOfChain(const Node& node) const {
    if (node.outputs.size() != 1 || !ShapeOf(node.outputs[0])) return false;
    std::vector<const ValueFacts*> inputs;
    for (const std::string& input : node.inputs) inputs.push_back(Facts(input));
    return IsChainable(node, inputs, Facts(node.outputs[0]));
  }

  // Nodes of the chain, the last one first; grows as long as a producer's value is needed by the chain alone.
  std::vector<size_t> Collect(size_t last) const {
    const Shape shape = *ShapeOf(editor_.node(last).outputs[0]);
    std::vector<size_t> chain{last};
    size_t inputs = editor_.node(last).inputs.size();
    for (size_t next = 0; next < chain.size(); ++next)
      for (const std::string& input : editor_.node(chain[next]).inputs) {
        const int producer = input.empty() ? -1 : editor_.Producer(input);
        if (producer < 0 || !chainable_[static_cast<size_t>(producer)]) continue;
        const auto index = static_cast<size_t>(producer);
        const bool is_taken = std::find(chain.begin(), chain.end(), index) != chain.end();
        if (is_taken || !IsReadOnlyBy(input, chain) || !(*ShapeOf(input) == shape)) continue;
        inputs += editor_.node(index).inputs.size();
        if (chain.size() == kMostNodes || inputs - chain.size() > kMostInputs) return chain;
        chain.push_back(index);
      }
    return chain;
  }

  bool IsReadOnlyBy(const std::string& value, const std::vector<size_t>& chain) const {
    size_t reads = 0;
    for (size_t reader : editor_.Readers(value)) {
      if (std::find(chain.begin(), chain.end(), reader) == chain.end()) return false;
      ++reads;
    }
    return reads == editor_.Uses(value);
  }

  void FuseEndingAt(size_t last) {
    std::vector<size_t> chain = Collect(last);
    if (chain.size() < 2) return;
    std::sort(chain.begin(), chain.end());
    auto body = std::make_shared<Graph>();
    Node fused;
    fused.op_type = "ElementwiseChain";
    fused.domain = kInternalDomain;
    fused.name = editor_.node(last).name;
    fused.outputs = editor_.node(last).outputs;
    std::vector<std::string> made;
    for (size_t index : chain) {
      const Node& node = editor_.node(index);
      for (const std::string& input : node.inputs) {
        if (input.empty() || std::find(made.begin(), made.end(), input) != made.end()) continue;
        if (std::find(fused.inputs.begin(), fused.inputs.end(), input) != fused.inputs.end()) continue;
        fused.inputs.push_back(input);
        body->inputs.push_back({.name = input, .type = Facts(input)->type});
      }
      made.push_back(node.outputs[0]);
      body->value_infos.push_back({.name = node.outputs[0], .type = Facts(node.outputs[0])->type});
      body->nodes.push_back(node);
    }
    body->outputs.push_back({.name = fused.outputs[0], .type = Facts(fused.outputs[0])->type});
    fused.Set("body", std::vector<std::shared_ptr<Graph>>{body});
    for (size_t index : chain)
      if (index != last) editor_.Remove(index);
    editor_.Replace(last, std::move(fused));
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
  std::vector<bool> chainable_;
};

}  // namespace

bool FuseChains(Graph& graph, const GraphFacts& facts) { return ChainFuser(graph, facts).Run(); }

}  // namespace ferry::cuda
