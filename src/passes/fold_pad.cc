#include "passes/fold_pad.h"

#include <algorithm>
#include <optional>

#include "passes/match.h"

namespace ferry {
namespace {

// The pads of all axes, begins then ends, when they are constants, none is negative and what is added is zero.
std::optional<std::vector<int64_t>> ZeroPads(const GraphEditor& editor, const Node& pad, size_t rank) {
  if (pad.String("mode", "constant") != "constant" || !pad.HasInput(1)) return std::nullopt;
  const Tensor* amounts = editor.Constant(pad.inputs[1]);
  if (!amounts || amounts->dtype() != DType::kInt64) return std::nullopt;
  if (pad.HasInput(2)) {
    const Tensor* value = editor.Constant(pad.inputs[2]);
    if (!value || value->dtype() != DType::kFloat || value->size() != 1 || *value->Data<float>() != 0.0f)
      return std::nullopt;
  }
  std::vector<int64_t> axes;
  if (pad.HasInput(3)) {
    const Tensor* given = editor.Constant(pad.inputs[3]);
    if (!given || (given->dtype() != DType::kInt64 && given->dtype() != DType::kInt32)) return std::nullopt;
    axes = ToInt64Vector(*given);
  } else {
    for (size_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<int64_t>(axis));
  }
  if (amounts->size() != static_cast<int64_t>(2 * axes.size())) return std::nullopt;
  std::vector<int64_t> pads(2 * rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = axes[i] < 0 ? axes[i] + static_cast<int64_t>(rank) : axes[i];
    if (axis < 0 || axis >= static_cast<int64_t>(rank)) return std::nullopt;
    pads[static_cast<size_t>(axis)] = amounts->Data<int64_t>()[i];
    pads[rank + static_cast<size_t>(axis)] = amounts->Data<int64_t>()[axes.size() + i];
  }
  constexpr int64_t kMost = 1 << 20;
  bool sane = std::all_of(pads.begin(), pads.end(), [](int64_t n) { return n >= 0 && n <= kMost; });
  bool only_spatial = pads[0] == 0 && pads[1] == 0 && pads[rank] == 0 && pads[rank + 1] == 0;
  return sane && only_spatial ? std::optional(pads) : std::nullopt;
}

void Fold(GraphEditor& editor, size_t index) {
  const Node& pad = editor.node(index);
  if (!IsStandard(pad, "Pad") || pad.inputs.empty() || pad.outputs.size() != 1) return;
  int reader = editor.OnlyReader(pad.outputs[0]);
  if (reader < 0) return;
  const Node& conv = editor.node(static_cast<size_t>(reader));
  if (!IsStandard(conv, "Conv") || conv.inputs.size() < 2 || conv.inputs[0] != pad.outputs[0]) return;
  std::string automatic = conv.String("auto_pad", "NOTSET");
  if (automatic != "NOTSET" && automatic != "VALID") return;
  const Tensor* weight = editor.Constant(conv.inputs[1]);
  if (!weight || weight->rank() < 3) return;
  size_t rank = weight->rank(), spatial = rank - 2;
  std::optional<std::vector<int64_t>> added = ZeroPads(editor, pad, rank);
  std::vector<int64_t> pads = automatic == "NOTSET" ? conv.Ints("pads") : std::vector<int64_t>();
  if (pads.empty()) pads.assign(2 * spatial, 0);
  if (!added || pads.size() != 2 * spatial) return;
  for (size_t i = 0; i < spatial; ++i) {
    pads[i] += (*added)[i + 2];
    pads[spatial + i] += (*added)[rank + i + 2];
  }
  Node folded = conv;
  folded.Remove("auto_pad");
  folded.Set("pads", pads);
  folded.inputs[0] = pad.inputs[0];
  editor.Remove(index);
  editor.Replace(static_cast<size_t>(reader), std::move(folded));
}

}  // namespace

bool FoldPad(Graph& graph) {
  if (!HasAny(graph, {"Pad"})) return false;
  GraphEditor editor(graph);
  for (size_t i = 0, count = editor.size(); i < count; ++i)
    if (!editor.removed(i)) Fold(editor, i);
  return editor.Finish();
}

}  // namespace ferry
