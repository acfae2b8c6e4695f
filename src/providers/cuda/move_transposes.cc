#include "providers/cuda/move_transposes.h"

#include <algorithm>

#include "ops/support/fused.h"
#include "ops/support/indices.h"
#include "passes/shapes.h"

namespace ferry::cuda {
namespace {

class TransposeMover {
 public:
  TransposeMover(Graph& graph, GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    const size_t count = editor_.size();
    for (size_t i = 0; i < count; ++i)
      if (!editor_.removed(i) && IsProduct(editor_.node(i))) MoveBehind(i);
    for (size_t i = 0; i < count; ++i)
      if (!editor_.removed(i) && IsTranspose(editor_.node(i))) MoveBefore(i);
    return editor_.Finish();
  }

 private:
  std::optional<Shape> ShapeOf(const std::string& name) const { return KnownShape(facts_, name); }
  static bool Is(const Node& node, std::string_view op) {
    return node.op_type == op && CanonicalDomain(node.domain).empty();
  }
  // Of rows: the last axis stays last.
  static bool IsTranspose(const Node& node) {
    const std::vector<int64_t> order = node.Ints("perm");
    return Is(node, "Transpose") && order.size() >= 3 && order.back() == static_cast<int64_t>(order.size()) - 1;
  }
  static bool IsProduct(const Node& node) {
    return node.op_type == "FusedMatMul" && node.domain == kInternalDomain && !node.HasInput(3) && !node.HasInput(4);
  }
  // The node that makes a value, where only `reader` reads it; -1 otherwise.
  int MakerFor(const std::string& value, size_t reader) const {
    return editor_.OnlyReader(value) == static_cast<int>(reader) ? editor_.Producer(value) : -1;
  }
  const Node& At(int index) const { return editor_.node(static_cast<size_t>(index)); }

  static Shape Permuted(const Shape& shape, const std::vector<int64_t>& order) {
    Shape permuted;
    for (int64_t axis : order) permuted.push_back(shape[static_cast<size_t>(axis)]);
    return permuted;
  }

  std::string NewValue(const std::string& like, const Shape& shape) {
    const std::string name = editor_.FreshName(like);
    ValueFacts facts;
    facts.type = facts_.Find(like)->type;
    facts.type.shape = ToSymbolic(shape);
    facts_.values[name] = std::move(facts);
    return name;
  }

  // Every way from here leads through views and choices to attention.
  bool LeadsToAttention(const std::string& value, int depth = 0) const {
    const std::vector<size_t>& readers = editor_.Readers(value);
    if (depth > 12 || readers.empty() || readers.size() != editor_.Uses(value)) return false;
    return std::all_of(readers.begin(), readers.end(), [&](size_t reader) {
      const Node& node = editor_.node(reader);
      if (node.op_type == "FusedAttention" && node.domain == kInternalDomain) return true;
      constexpr std::string_view kViews[] = {"Reshape",  "Squeeze",   "Unsqueeze", "Flatten",
                                             "Identity", "Transpose", "Split",     "Gather"};
      const bool is_view = std::any_of(std::begin(kViews), std::end(kViews), [&](auto op) { return Is(node, op); });
      return is_view && node.inputs[0] == value &&
             std::all_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& output) {
               return output.empty() || LeadsToAttention(output, depth + 1);
             });
    });
  }

  void MoveBehind(size_t index) {
    const Node& product = editor_.node(index);
    const int before = MakerFor(product.inputs[0], index);
    if (before < 0 || !IsTranspose(At(before)) || !LeadsToAttention(product.outputs[0])) return;
    std::optional<Shape> shape = ShapeOf(At(before).inputs[0]), made = ShapeOf(product.outputs[0]);
    if (!shape || !made) return;
    shape->back() = made->back();
    Node first = product, second = At(before);
    first.inputs[0] = second.inputs[0];
    first.outputs[0] = NewValue(product.outputs[0], *shape);
    second.inputs[0] = first.outputs[0];
    second.outputs[0] = product.outputs[0];
    editor_.Replace(static_cast<size_t>(before), std::move(first));
    editor_.Replace(index, std::move(second));
  }

  // Transpose, Reshape to rows, product, Reshape, Transpose: all of the order is put into the first one.
  void MoveBefore(size_t index) {
    const Node& last = editor_.node(index);
    const int apart = MakerFor(last.inputs[0], index);
    if (apart < 0 || !Is(At(apart), "Reshape")) return;
    const int product = MakerFor(At(apart).inputs[0], static_cast<size_t>(apart));
    if (product < 0 || !IsProduct(At(product))) return;
    const int rows = MakerFor(At(product).inputs[0], static_cast<size_t>(product));
    if (rows < 0 || !Is(At(rows), "Reshape")) return;
    const int first = MakerFor(At(rows).inputs[0], static_cast<size_t>(rows));
    if (first < 0 || !IsTranspose(At(first))) return;
    const std::optional<Shape> from = ShapeOf(At(first).outputs[0]), flat = ShapeOf(At(rows).outputs[0]),
                               wide = ShapeOf(last.inputs[0]), made = ShapeOf(last.outputs[0]);
    if (!from || !flat || !wide || !made || flat->rank() != 2 || from->rank() < wide->rank()) return;
    const size_t outer = wide->rank() - 1;
    for (size_t i = 0; i < outer; ++i)
      if ((*from)[i] != (*wide)[i]) return;
    if (flat->back() != from->CountBetween(outer, from->rank())) return;
    std::vector<int64_t> order = At(first).Ints("perm"), old = order;
    const std::vector<int64_t> more = last.Ints("perm");
    for (size_t i = 0; i < outer; ++i) order[i] = old[static_cast<size_t>(more[i])];
    std::vector<int64_t> turned(from->rank());
    for (size_t i = 0; i < turned.size(); ++i) turned[i] = i < outer ? more[i] : static_cast<int64_t>(i);

    Node transpose = At(first), to_rows = At(rows), to_images = At(apart);
    transpose.Set("perm", order);
    transpose.outputs[0] = NewValue(At(first).outputs[0], Permuted(*from, turned));
    to_rows.inputs[0] = transpose.outputs[0];
    to_rows.inputs[1] = AddShapeConstant(*flat, editor_, facts_);
    to_images.inputs[1] = AddShapeConstant(*made, editor_, facts_);
    to_images.outputs[0] = last.outputs[0];
    to_rows.Remove("allowzero");
    to_images.Remove("allowzero");
    editor_.Remove(index);
    editor_.Replace(static_cast<size_t>(first), std::move(transpose));
    editor_.Replace(static_cast<size_t>(rows), std::move(to_rows));
    editor_.Replace(static_cast<size_t>(apart), std::move(to_images));
  }

  GraphEditor editor_;
  GraphFacts& facts_;
};

}  // namespace

bool MoveTransposes(Graph& graph, GraphFacts& facts) { return TransposeMover(graph, facts).Run(); }

}  // namespace ferry::cuda
