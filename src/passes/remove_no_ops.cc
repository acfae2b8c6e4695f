#include "passes/remove_no_ops.h"

#include <algorithm>

#include "base/one_of.h"
#include "passes/match.h"

namespace ferry {
namespace {

bool SameDim(const Dim& a, const Dim& b) {
  if (a.known() || b.known()) return a.known() && b.known() && *a.value == *b.value;
  return a.named() && a.symbol == b.symbol;
}

class Removing {
 public:
  Removing(Graph& graph, const FactsByName& values) : editor_(graph), values_(values) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i)
      if (!editor_.removed(i) && PassesOn(editor_.node(i))) Bypass(i);
    return editor_.Finish();
  }

 private:
  const ValueFacts* Find(const std::string& name) const {
    auto found = values_.find(name);
    return found == values_.end() ? nullptr : &found->second;
  }

  // Types and shapes are known and the same. The rest is up to the operator.
  bool KeepsType(const Node& node) const {
    const ValueFacts *in = Find(node.inputs[0]), *out = Find(node.outputs[0]);
    if (!in || !out || !in->type.is_tensor() || !out->type.is_tensor()) return false;
    if (in->type.dtype == DType::kUndefined || in->type.dtype != out->type.dtype) return false;
    if (!in->type.shape || !out->type.shape) return false;
    return std::equal(in->type.shape->begin(), in->type.shape->end(), out->type.shape->begin(), out->type.shape->end(),
                      SameDim);
  }

  bool IsZeros(const std::string& name) const {
    const Tensor* constant = editor_.Constant(name);
    if (!constant || constant->dtype() != DType::kInt64) return false;
    const auto elements = constant->Span<int64_t>();
    return std::all_of(elements.begin(), elements.end(), [](int64_t element) { return element == 0; });
  }

  // All steps are 1: a slice that is as large as its input then is its input.
  bool GoesForward(const Node& slice) const {
    if (!slice.HasInput(4)) return true;
    const Tensor* steps = editor_.Constant(slice.inputs[4]);
    if (!steps || (steps->dtype() != DType::kInt64 && steps->dtype() != DType::kInt32)) return false;
    const std::vector<int64_t> elements = ToInt64Vector(*steps);
    return std::all_of(elements.begin(), elements.end(), [](int64_t step) { return step == 1; });
  }

  bool HasKnownSizes(const Node& node) const {
    const SymbolicShape& shape = *Find(node.inputs[0])->type.shape;
    return std::all_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.known(); });
  }

  bool TimesOne(const Node& node) const {
    return node.HasInput(1) && ScalarConstant(editor_, node.inputs[1]) == 1.0f && KeepsType(node);
  }

  bool IsSwitchedOff(const Node& dropout) const {
    if (dropout.outputs.size() > 1 && !dropout.outputs[1].empty() && editor_.Uses(dropout.outputs[1]) > 0) return false;
    if (!dropout.HasInput(2)) return true;
    const Tensor* training = editor_.Constant(dropout.inputs[2]);
    return training && training->dtype() == DType::kBool && training->size() == 1 && !*training->Data<bool>();
  }

  bool PassesOn(const Node& node) const {
    if (!IsOnnx(node) || !node.HasInput(0) || !node.HasOutput(0)) return false;
    const std::string& op = node.op_type;
    if (op == "Identity") return true;
    if (op == "Dropout") return IsSwitchedOff(node);
    if (IsOneOf(op, {"Concat", "Sum", "Max", "Min", "Mean"})) return node.inputs.size() == 1 && KeepsType(node);
    if (op == "Transpose") {
      const std::vector<int64_t> order = node.Ints("perm");
      return !order.empty() && std::is_sorted(order.begin(), order.end());
    }
    if (IsOneOf(op, {"Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand"})) return KeepsType(node);
    if (op == "Slice") return KeepsType(node) && HasKnownSizes(node) && GoesForward(node);
    if (op == "Pad") return node.HasInput(1) && IsZeros(node.inputs[1]) && KeepsType(node);
    if (IsOneOf(op, {"Mul", "Div", "Pow"})) return TimesOne(node);
    return false;
  }

  static bool IsOnnx(const Node& node) { return CanonicalDomain(node.domain).empty(); }

  void Bypass(size_t index) {
    const std::string from = editor_.node(index).inputs[0], to = editor_.node(index).outputs[0];
    const bool stays = editor_.Uses(to) > editor_.Readers(to).size();  // leaves the graph, or a body reads it
    if (stays && !RenameSource(from, to, index)) return;
    if (stays) return;
    for (size_t reader : std::vector<size_t>(editor_.Readers(to))) {
      Node changed = editor_.node(reader);
      std::replace(changed.inputs.begin(), changed.inputs.end(), to, from);
      editor_.Replace(reader, std::move(changed));
    }
    editor_.Remove(index);
  }

  // The node that makes the source makes the result instead, where nothing else holds on to the source's name.
  bool RenameSource(const std::string& from, const std::string& to, size_t index) {
    const int producer = editor_.Producer(from);
    if (producer < 0 || editor_.Uses(from) > editor_.Readers(from).size()) return false;
    const std::vector<size_t> readers = editor_.Readers(from);
    editor_.Remove(index);
    Node maker = editor_.node(static_cast<size_t>(producer));
    std::replace(maker.outputs.begin(), maker.outputs.end(), from, to);
    editor_.Replace(static_cast<size_t>(producer), std::move(maker));
    for (size_t reader : readers) {
      if (reader == index || editor_.removed(reader)) continue;
      Node changed = editor_.node(reader);
      std::replace(changed.inputs.begin(), changed.inputs.end(), from, to);
      editor_.Replace(reader, std::move(changed));
    }
    return true;
  }

  GraphEditor editor_;
  const FactsByName& values_;
};

}  // namespace

bool RemoveNoOps(Graph& graph, const GraphFacts& facts) {
  bool changed = Removing(graph, facts.values).Run();
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes) {
      auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held);
      if (!body || !*body) continue;
      auto known = facts.bodies.find(body->get());
      if (known != facts.bodies.end()) changed |= Removing(**body, known->second).Run();
    }
  return changed;
}

}  // namespace ferry
