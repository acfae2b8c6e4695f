#include "providers/cuda/join_scaled.h"

#include <algorithm>

#include "ops/support/fused.h"
#include "ops/support/indices.h"
#include "ops/support/nhwc.h"
#include "passes/shapes.h"
#include "providers/cuda/join_rows.h"

namespace ferry::cuda {
namespace {

class JoinFuser {
 public:
  JoinFuser(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    const size_t count = editor_.size();
    for (size_t i = 0; i < count; ++i)
      if (!editor_.removed(i)) Fuse(i);
    return editor_.Finish();
  }

 private:
  std::optional<Shape> ShapeOf(const std::string& name) const { return KnownShape(facts_, name); }

  // Parts along the last axis whose widths the kernel takes.
  bool IsTaken(const Node& concat) const {
    if (concat.op_type != "Concat" || !CanonicalDomain(concat.domain).empty() || concat.inputs.empty()) return false;
    const ValueFacts* made = facts_.Find(concat.outputs[0]);
    if (!made || !made->type.is_tensor()) return false;
    std::vector<int64_t> columns;
    for (const std::string& input : concat.inputs) {
      const std::optional<Shape> part = ShapeOf(input);
      if (!part || part->rank() == 0) return false;
      const int64_t axis = concat.Int("axis", 0);
      if (axis != -1 && axis != static_cast<int64_t>(part->rank()) - 1) return false;
      columns.push_back(part->back());
    }
    return CanJoinScaled(made->type.dtype, columns);
  }

  void Fuse(size_t index) {
    const Node& conv = editor_.node(index);
    if (conv.op_type != "NhwcConv" || conv.domain != kInternalDomain || !conv.HasInput(4)) return;
    const Activation before = ActivationBefore(conv);
    const int producer = editor_.Producer(conv.inputs[0]);
    const bool is_taken = before.kind == ActivationKind::kNone || before.kind == ActivationKind::kRelu;
    if (!is_taken || producer < 0 || editor_.OnlyReader(conv.inputs[0]) != static_cast<int>(index)) return;
    const auto source = static_cast<size_t>(producer);
    if (!IsTaken(editor_.node(source))) return;
    const ValueFacts* made = facts_.Find(conv.inputs[0]);
    const int64_t channels = ShapeOf(conv.inputs[0]).value_or(Shape{0}).back();
    for (size_t i : {4u, 5u}) {
      const ValueFacts* part = conv.HasInput(i) ? facts_.Find(conv.inputs[i]) : nullptr;
      if (!conv.HasInput(i)) continue;
      const std::optional<Shape> shape = ShapeOf(conv.inputs[i]);
      if (!part || part->type.dtype != made->type.dtype || !shape || shape->ElementCount() != channels) return;
    }
    Node joined = BodyOf(editor_.node(source), conv, before, made->type);
    Node plain = conv;
    plain.inputs.resize(4);
    while (!plain.inputs.empty() && plain.inputs.back().empty()) plain.inputs.pop_back();
    plain.Remove("before");
    editor_.Replace(source, std::move(joined));
    editor_.Replace(index, std::move(plain));
  }

  Node BodyOf(const Node& concat, const Node& conv, const Activation& before, const Type& type) const {
    auto body = std::make_shared<Graph>();
    Node fused;
    fused.op_type = "ElementwiseChain";
    fused.domain = kInternalDomain;
    fused.name = concat.name;
    fused.outputs = concat.outputs;
    auto read = [&](const std::string& name) {
      if (std::find(fused.inputs.begin(), fused.inputs.end(), name) == fused.inputs.end()) {
        fused.inputs.push_back(name);
        body->inputs.push_back({.name = name, .type = facts_.Find(name)->type});
      }
      return name;
    };
    std::string value;
    auto add = [&](const std::string& op, std::vector<std::string> inputs) -> Node& {
      Node& node = body->nodes.emplace_back();
      node.op_type = op;
      node.inputs = std::move(inputs);
      value = Cat(concat.outputs[0], " ", op);
      node.outputs = {value};
      return node;
    };
    for (const std::string& part : concat.inputs) read(part);
    add("Concat", concat.inputs).Set("axis", int64_t{-1});
    add("Mul", {value, read(conv.inputs[4])});
    if (conv.HasInput(5)) add("Add", {value, read(conv.inputs[5])});
    if (before.kind == ActivationKind::kRelu) add("Relu", {value});
    body->outputs.push_back({.name = value, .type = type});
    fused.Set("body", std::vector<std::shared_ptr<Graph>>{body});
    return fused;
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
};

}  // namespace

bool FuseJoinScaled(Graph& graph, const GraphFacts& facts) { return JoinFuser(graph, facts).Run(); }

}  // namespace ferry::cuda
