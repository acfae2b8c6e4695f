#include "providers/cuda/join_byte_sums.h"

#include <algorithm>

#include "graph/editor.h"
#include "ops/support/fused.h"

namespace ferry::cuda {
namespace {

bool IsInternal(const Node& node, std::string_view op) { return node.op_type == op && node.domain == kInternalDomain; }

class SumJoiner {
 public:
  SumJoiner(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i)
      if (!editor_.removed(i) && IsInternal(editor_.node(i), "QuantizedAdd")) Join(i);
    return editor_.Finish();
  }

 private:
  // The later of the two convolutions where both operands are one: the other is computed by then.
  void Join(size_t index) {
    const Node add = editor_.node(index);
    if (add.inputs.size() != 2 || add.inputs[0] == add.inputs[1]) return;
    int chosen = -1;
    for (const std::string& input : add.inputs)
      if (const int producer = editor_.Producer(input); producer > chosen && IsTaken(producer, index))
        chosen = producer;
    if (chosen < 0) return;
    const Node conv = editor_.node(static_cast<size_t>(chosen));
    Node joined = Joined(conv, add);
    editor_.Remove(static_cast<size_t>(chosen));
    editor_.Replace(index, std::move(joined));
  }

  bool IsTaken(int producer, size_t reader) const {
    const Node& conv = editor_.node(static_cast<size_t>(producer));
    if (!IsInternal(conv, "QuantizedNhwcConv") || editor_.OnlyReader(conv.outputs[0]) != static_cast<int>(reader))
      return false;
    const ValueFacts *x = facts_.Find(conv.inputs[0]), *w = facts_.Find(conv.inputs[1]);
    for (const std::string& name : conv.inputs)
      if (!name.empty() && !facts_.Find(name)) return false;
    if (!x || !w || !w->constant || !x->type.is_tensor() || !x->type.shape) return false;
    const std::optional<Shape> shape = ToConcrete(*x->type.shape);
    return shape && IsTakenWithSum(conv, *shape, *w->constant);
  }

  Node Joined(const Node& conv, const Node& add) const {
    auto body = std::make_shared<Graph>();
    Node fused;
    fused.op_type = "ElementwiseChain";
    fused.domain = kInternalDomain;
    fused.name = conv.name;
    fused.outputs = add.outputs;
    auto read = [&](const std::string& name) {
      if (std::find(fused.inputs.begin(), fused.inputs.end(), name) != fused.inputs.end()) return;
      fused.inputs.push_back(name);
      body->inputs.push_back({.name = name, .type = facts_.Find(name)->type});
    };
    for (const std::string& name : conv.inputs)
      if (!name.empty()) read(name);
    read(add.inputs[add.inputs[0] == conv.outputs[0] ? 1 : 0]);
    body->nodes = {conv, add};
    body->outputs.push_back({.name = add.outputs[0], .type = facts_.Find(add.outputs[0])->type});
    fused.Set("body", std::vector<std::shared_ptr<Graph>>{body});
    return fused;
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
};

}  // namespace

const Graph* BodyWithSum(const Node& chain) {
  const Attribute* attribute = chain.Find("body");
  auto* graphs = attribute ? std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute->held) : nullptr;
  const Graph* body = graphs && graphs->size() == 1 ? graphs->front().get() : nullptr;
  const bool fits = body && body->nodes.size() == 2 && IsInternal(body->nodes[0], "QuantizedNhwcConv") &&
                    IsInternal(body->nodes[1], "QuantizedAdd");
  return fits ? body : nullptr;
}

bool JoinByteSums(Graph& graph, const GraphFacts& facts) { return SumJoiner(graph, facts).Run(); }

}  // namespace ferry::cuda
