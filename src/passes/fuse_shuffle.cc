#include "passes/fuse_shuffle.h"

#include <algorithm>

#include "graph/editor.h"
#include "ops/support/fused.h"
#include "passes/match.h"

namespace ferry {
namespace {

bool IsShuffle(const Node& node) { return node.op_type == "NhwcShuffle" && node.domain == kInternalDomain; }

class Fusion {
 public:
  Fusion(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i)
      if (!editor_.removed(i) && IsShuffle(editor_.node(i))) Fuse(i);
    return editor_.Finish();
  }

 private:
  void Fuse(size_t index) {
    Node shuffle = editor_.node(index);
    if (shuffle.inputs.size() != 1 || shuffle.Int("groups", 1) != 2) return;
    int join = editor_.Producer(shuffle.inputs[0]);
    if (join < 0 || editor_.OnlyReader(shuffle.inputs[0]) != static_cast<int>(index)) return;
    const Node& concat = editor_.node(static_cast<size_t>(join));
    if (!IsStandard(concat, "Concat") || concat.inputs.size() != 2) return;
    const SymbolicShape *first = ShapeOf(concat.inputs[0]), *second = ShapeOf(concat.inputs[1]);
    if (!first || !second || !IsLastAxis(concat, first->size()) || !first->back().known() ||
        !std::equal(first->begin(), first->end(), second->begin(), second->end(), SameDim))
      return;
    shuffle.inputs = concat.inputs;
    size_t place = index;
    int cut = HalvingReader(shuffle.outputs[0], *first->back().value, first->size());
    if (cut >= 0) {
      place = static_cast<size_t>(cut);
      shuffle.outputs = editor_.node(place).outputs;
      editor_.Remove(index);
    }
    editor_.Remove(static_cast<size_t>(join));
    editor_.Replace(place, std::move(shuffle));
  }

  // The Split that alone reads the value and cuts it into halves of `channels`; -1 when there is none.
  int HalvingReader(const std::string& value, int64_t channels, size_t rank) const {
    int reader = editor_.OnlyReader(value);
    if (reader < 0 || channels % 2 != 0) return -1;
    const Node& split = editor_.node(static_cast<size_t>(reader));
    if (!IsStandard(split, "Split") || split.outputs.size() != 2 || !IsLastAxis(split, rank)) return -1;
    for (const std::string& half : split.outputs) {
      const SymbolicShape* shape = half.empty() ? nullptr : ShapeOf(half);
      if (!shape || shape->size() != rank || shape->back().value != channels) return -1;
    }
    return reader;
  }

  static bool IsLastAxis(const Node& node, size_t rank) {
    int64_t axis = node.Int("axis", 0);
    return rank > 0 && (axis == -1 || axis == static_cast<int64_t>(rank) - 1);
  }

  const SymbolicShape* ShapeOf(const std::string& value) const {
    const ValueFacts* facts = facts_.Find(value);
    return facts && facts->type.dtype == DType::kFloat && facts->type.shape ? &*facts->type.shape : nullptr;
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
};

}  // namespace

bool FuseShuffle(Graph& graph, GraphFacts& facts) {
  if (!HasAny(graph, {"NhwcShuffle"})) return false;
  InferNew(graph, facts);
  return Fusion(graph, facts).Run();
}

}  // namespace ferry
