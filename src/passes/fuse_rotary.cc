#include "passes/fuse_rotary.h"

#include "ops/support/fused.h"
#include "passes/match.h"

namespace ferry {
namespace {

// Every `step`-th element of the last axis of x, `first` being 0 or the one where the other part begins.
struct Part {
  std::string x;
  bool second;
  bool interleaved;
};

struct Turned {
  std::string x;
  bool interleaved;
};

class Fusion {
 public:
  Fusion(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i) {
      if (editor_.removed(i)) continue;
      if (IsStandard(editor_.node(i), "Add")) FromSum(i);
      if (IsStandard(editor_.node(i), "Concat")) FromParts(i);
    }
    return editor_.Finish();
  }

 private:
  // x · cos + turned(x) · sin
  void FromSum(size_t index) {
    const Node& sum = editor_.node(index);
    for (size_t i = 0; i < 2; ++i) {
      const Node *plain = MadeOnlyBy(editor_, sum.inputs[i], "Mul"),
                 *turning = MadeOnlyBy(editor_, sum.inputs[1 - i], "Mul");
      if (!plain || !turning) return;
      for (size_t j = 0; j < 2; ++j) {
        std::optional<Turned> turned = TurnedOf(turning->inputs[j]);
        if (!turned) continue;
        for (size_t k = 0; k < 2; ++k) {
          const std::string &cosines = plain->inputs[1 - k], &sines = turning->inputs[1 - j];
          int64_t width = LastDim(turned->x);
          if (plain->inputs[k] != turned->x || !IsAngles(cosines, width) || !IsAngles(sines, width)) continue;
          return Replace(index, *turned, cosines, sines);
        }
      }
    }
  }

  // Concat(a · cos − b · sin, b · cos + a · sin)
  void FromParts(size_t index) {
    const Node& joined = editor_.node(index);
    if (joined.inputs.size() != 2 || !IsLastAxis(joined.Int("axis", 0), joined.outputs[0])) return;
    const Node *difference = MadeOnlyBy(editor_, joined.inputs[0], "Sub"),
               *sum = MadeOnlyBy(editor_, joined.inputs[1], "Add");
    if (!difference || !sum) return;
    std::optional<Scaled> a = ScaledPart(difference->inputs[0]), b = ScaledPart(difference->inputs[1]);
    if (!a || !b || a->part.second || !b->part.second || a->part.x != b->part.x || a->part.interleaved ||
        b->part.interleaved)
      return;
    int64_t width = LastDim(a->part.x) / 2;
    if (!IsAngles(a->by, width) || !IsAngles(b->by, width)) return;
    for (size_t i = 0; i < 2; ++i) {
      std::optional<Scaled> second = ScaledPart(sum->inputs[i]), first = ScaledPart(sum->inputs[1 - i]);
      if (!second || !first || !second->part.second || first->part.second || second->part.x != a->part.x ||
          first->part.x != a->part.x || second->part.interleaved || first->part.interleaved)
        continue;
      if (second->by != a->by || first->by != b->by) continue;
      return Replace(index, {a->part.x, false}, a->by, b->by);
    }
  }

  void Replace(size_t index, const Turned& turned, const std::string& cosines, const std::string& sines) {
    Node fused;
    fused.name = editor_.node(index).name;
    fused.op_type = "FusedRotary";
    fused.domain = kInternalDomain;
    fused.inputs = {turned.x, cosines, sines};
    fused.outputs = editor_.node(index).outputs;
    fused.Set("interleaved", int64_t{turned.interleaved});
    editor_.Replace(index, std::move(fused));
  }

  const SymbolicShape* FloatShape(const std::string& value) const {
    const ValueFacts* facts = facts_.Find(value);
    return facts && facts->type.dtype == DType::kFloat && facts->type.shape ? &*facts->type.shape : nullptr;
  }
  // Of a float value; 0 when it is not known.
  int64_t LastDim(const std::string& value) const {
    const SymbolicShape* shape = FloatShape(value);
    return shape && !shape->empty() && shape->back().known() ? *shape->back().value : 0;
  }
  bool IsAngles(const std::string& value, int64_t width) const { return width > 0 && LastDim(value) == width; }
  bool IsLastAxis(int64_t axis, const std::string& value) const {
    const SymbolicShape* shape = FloatShape(value);
    return shape && (axis == -1 || axis + 1 == static_cast<int64_t>(shape->size()));
  }

  struct Scaled {
    Part part;
    std::string by;
  };
  std::optional<Scaled> ScaledPart(const std::string& value) const {
    const Node* product = MadeOnlyBy(editor_, value, "Mul");
    if (!product) return std::nullopt;
    for (size_t i = 0; i < 2; ++i)
      if (std::optional<Part> part = PartOf(product->inputs[i])) return Scaled{*part, product->inputs[1 - i]};
    return std::nullopt;
  }

  // (−b, a) of the pairs (a, b) of x.
  std::optional<Turned> TurnedOf(const std::string& value) const {
    const Node* joined = MadeBy(editor_, value, "Concat");
    if (!joined) return TurnedNeighbours(value);
    if (joined->inputs.size() != 2 || !IsLastAxis(joined->Int("axis", 0), value)) return std::nullopt;
    const Node* minus = MadeBy(editor_, joined->inputs[0], "Neg");
    std::optional<Part> b = minus ? PartOf(minus->inputs[0]) : std::nullopt, a = PartOf(joined->inputs[1]);
    if (!a || !b || a->x != b->x || a->second || !b->second || a->interleaved || b->interleaved) return std::nullopt;
    return Turned{a->x, false};
  }

  // Both parts get an axis of their own, are joined along it, and the two last axes become one.
  std::optional<Turned> TurnedNeighbours(const std::string& value) const {
    const Node* flat = MadeBy(editor_, value, "Reshape");
    const Node* joined = flat ? MadeBy(editor_, flat->inputs[0], "Concat") : nullptr;
    if (!joined || joined->inputs.size() != 2 || !IsLastAxis(joined->Int("axis", 0), joined->outputs[0]))
      return std::nullopt;
    const Node *left = MadeBy(editor_, joined->inputs[0], "Unsqueeze"),
               *right = MadeBy(editor_, joined->inputs[1], "Unsqueeze");
    const Node* minus = left ? MadeBy(editor_, left->inputs[0], "Neg") : nullptr;
    if (!minus || !right || LastDim(joined->inputs[0]) != 1 || LastDim(joined->inputs[1]) != 1) return std::nullopt;
    std::optional<Part> b = PartOf(minus->inputs[0]), a = PartOf(right->inputs[0]);
    if (!a || !b || a->x != b->x || a->second || !b->second || !a->interleaved || !b->interleaved) return std::nullopt;
    // A new axis of size 1 in the last place leaves the others: the last dimension of the sum tells where it stands.
    const SymbolicShape *x = FloatShape(a->x), *back = FloatShape(value), *apart = FloatShape(joined->outputs[0]);
    if (!x || !back || !apart || back->size() != x->size() || apart->size() != x->size() + 1) return std::nullopt;
    for (size_t i = 0; i < x->size(); ++i)
      if (!SameDim((*back)[i], (*x)[i])) return std::nullopt;
    const Tensor *left_axes = editor_.Constant(left->inputs[1]), *right_axes = editor_.Constant(right->inputs[1]);
    auto is_last = [&](const Tensor* axes) {
      if (!axes || axes->dtype() != DType::kInt64 || axes->size() != 1) return false;
      int64_t axis = *axes->Data<int64_t>();
      return axis == -1 || axis == static_cast<int64_t>(x->size());
    };
    if (!is_last(left_axes) || !is_last(right_axes)) return std::nullopt;
    return Turned{a->x, true};
  }

  std::optional<Part> PartOf(const std::string& value) const {
    if (const Node* split = MadeBy(editor_, value, "Split")) return PartOfSplit(*split, value);
    const Node* slice = MadeBy(editor_, value, "Slice");
    if (!slice) return std::nullopt;
    const std::string& x = slice->inputs[0];
    int64_t size = LastDim(x);
    std::optional<int64_t> start = IndexAt(*slice, 1), end = IndexAt(*slice, 2), axis = IndexAt(*slice, 3),
                           step = slice->HasInput(4) ? IndexAt(*slice, 4) : std::optional<int64_t>(1);
    if (size < 2 || size % 2 || !start || !end || !axis || !step || !IsLastAxis(*axis, x)) return std::nullopt;
    auto placed = [size](int64_t index) { return index < 0 ? index + size : std::min(index, size); };
    int64_t first = placed(*start), last = placed(*end), half = size / 2;
    if (*step == 1 && first == 0 && last == half) return Part{x, false, false};
    if (*step == 1 && first == half && last == size) return Part{x, true, false};
    if (*step == 2 && first == 0 && last >= size - 1) return Part{x, false, true};
    if (*step == 2 && first == 1 && last == size) return Part{x, true, true};
    return std::nullopt;
  }

  std::optional<Part> PartOfSplit(const Node& split, const std::string& value) const {
    const std::string& x = split.inputs[0];
    int64_t size = LastDim(x);
    if (split.outputs.size() != 2 || size < 2 || size % 2 || !IsLastAxis(split.Int("axis", 0), x) ||
        LastDim(split.outputs[0]) != size / 2 || LastDim(split.outputs[1]) != size / 2)
      return std::nullopt;
    return Part{x, value == split.outputs[1], false};
  }

  // The only element of a constant input.
  std::optional<int64_t> IndexAt(const Node& node, size_t input) const {
    const Tensor* constant = node.HasInput(input) ? editor_.Constant(node.inputs[input]) : nullptr;
    if (!constant || constant->size() != 1) return std::nullopt;
    if (constant->dtype() == DType::kInt64) return *constant->Data<int64_t>();
    if (constant->dtype() == DType::kInt32) return *constant->Data<int32_t>();
    return std::nullopt;
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
};

}  // namespace

bool FuseRotary(Graph& graph, const GraphFacts& facts) {
  return HasAny(graph, {"Concat"}) && HasAny(graph, {"Neg", "Sub"}) && Fusion(graph, facts).Run();
}

}  // namespace ferry
