#include "providers/cuda/widen_products.h"

#include "graph/editor.h"
#include "ops/support/fused.h"

namespace ferry::cuda {
namespace {

const Graph* BodyOf(const Node& node) {
  const Attribute* attribute = node.Find("body");
  auto* graphs = attribute ? std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute->held) : nullptr;
  return graphs && graphs->size() == 1 ? graphs->front().get() : nullptr;
}

bool IsFused(const Node& node) { return node.op_type == "FusedMatMul" && node.domain == kInternalDomain; }

// A product of two operands and nothing else, the second one a matrix that is known.
bool IsPlainProduct(const Node& node, const GraphFacts& facts) {
  const bool plain = node.op_type == "MatMul" && CanonicalDomain(node.domain).empty();
  if ((!plain && !IsFused(node)) || node.inputs.size() < 2 || !node.HasInput(0) || !node.HasInput(1)) return false;
  for (size_t i = 2; i < node.inputs.size(); ++i)
    if (node.HasInput(i)) return false;
  if (ActivationOf(node).kind != ActivationKind::kNone) return false;
  const ValueFacts *a = facts.Find(node.inputs[0]), *b = facts.Find(node.inputs[1]);
  if (!a || !b || !a->type.is_tensor() || !a->type.shape || a->type.shape->size() < 2) return false;
  const DType type = a->type.dtype;
  return b->constant && b->constant->rank() == 2 && b->constant->size() > 0 &&
         (type == DType::kFloat16 || type == DType::kBFloat16);
}

}  // namespace

bool WidenProducts(Graph& graph, const GraphFacts& facts) {
  GraphEditor editor(graph);
  const size_t count = editor.size();
  for (size_t i = 0; i < count; ++i) {
    if (editor.removed(i) || !IsPlainProduct(editor.node(i), facts)) continue;
    const int reader = editor.OnlyReader(editor.node(i).outputs[0]);
    if (reader < 0) continue;
    const Node& cast = editor.node(static_cast<size_t>(reader));
    if (cast.op_type != "Cast" || !CanonicalDomain(cast.domain).empty() ||
        cast.Int("to", 0) != static_cast<int64_t>(DType::kFloat))
      continue;
    Node product = editor.node(i);
    product.inputs.resize(2);
    auto body = std::make_shared<Graph>();
    for (const std::string& input : product.inputs)
      body->inputs.push_back({.name = input, .type = facts.Find(input)->type});
    body->nodes = {product, cast};
    body->outputs.push_back({.name = cast.outputs[0], .type = facts.Find(cast.outputs[0])->type});
    Node widened = product;
    widened.op_type = "ElementwiseChain";
    widened.domain = kInternalDomain;
    widened.outputs = cast.outputs;
    widened.Set("body", std::vector<std::shared_ptr<Graph>>{body});
    editor.Remove(static_cast<size_t>(reader));
    editor.Replace(i, std::move(widened));
  }
  return editor.Finish();
}

bool IsWidenedProduct(const Node& node) {
  if (node.op_type != "ElementwiseChain" || node.domain != kInternalDomain) return false;
  const Graph* body = BodyOf(node);
  return body && body->nodes.size() == 2 && body->nodes[1].op_type == "Cast" &&
         (IsFused(body->nodes[0]) || body->nodes[0].op_type == "MatMul");
}

}  // namespace ferry::cuda
