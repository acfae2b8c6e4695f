#include "providers/cuda/trim_windows.h"

#include <algorithm>
#include <cstring>

#include "graph/editor.h"
#include "ops/support/fused.h"
#include "ops/support/nhwc.h"
#include "tensor/alignment.h"

namespace ferry::cuda {
namespace {

struct Taps {
  int64_t first, count;
};

// Those between the first and the last that lie on the image for some pixel.
Taps UsefulTaps(const WindowAxis& axis) {
  int64_t first = axis.kernel, last = -1;
  for (int64_t tap = 0; tap < axis.kernel; ++tap) {
    const OutputRange outputs = ValidOutputs(axis, tap);
    if (outputs.begin >= outputs.end) continue;
    first = std::min(first, tap);
    last = tap;
  }
  return {first, last - first + 1};
}

// [M, C, kernel…] with fewer taps.
Tensor Cut(const Tensor& w, const std::vector<Taps>& taps) {
  Shape shape = w.shape();
  for (size_t i = 0; i < taps.size(); ++i) shape[i + 2] = taps[i].count;
  Tensor cut(w.dtype(), shape);
  const std::vector<int64_t> from = w.shape().Strides(), to = shape.Strides();
  const auto bytes = static_cast<int64_t>(BitWidth(w.dtype()) / 8);
  for (int64_t i = 0; i < cut.size(); ++i) {
    int64_t rest = i, place = 0;
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      place += (rest / to[axis] + (axis >= 2 ? taps[axis - 2].first : 0)) * from[axis];
      rest %= to[axis];
    }
    std::memcpy(cut.mutable_raw() + i * bytes, w.raw() + place * bytes, static_cast<size_t>(bytes));
  }
  return cut;
}

}  // namespace

bool TrimWindows(Graph& graph, const GraphFacts& facts) {
  GraphEditor editor(graph);
  for (size_t i = 0, count = editor.size(); i < count; ++i) {
    const Node& conv = editor.node(i);
    if (conv.op_type != "NhwcConv" || conv.domain != kInternalDomain || conv.HasInput(4)) continue;
    const Tensor* w = editor.Constant(conv.inputs[1]);
    const ValueFacts* x = facts.Find(conv.inputs[0]);
    const std::optional<Shape> shape =
        x && x->type.is_tensor() && x->type.shape ? ToConcrete(*x->type.shape) : std::nullopt;
    if (!w || w->dtype() != DType::kFloat || !shape || shape->ElementCount() == 0) continue;
    const NhwcConvPlan plan = PlanNhwcConv(conv, *shape, w->shape());
    std::vector<Taps> taps;
    bool fewer = false, some = true;
    for (const WindowAxis& axis : plan.conv.axes) {
      taps.push_back(UsefulTaps(axis));
      fewer |= taps.back().count < axis.kernel;
      some &= taps.back().count > 0;
    }
    if (!fewer || !some) continue;
    Node trimmed = conv;
    std::vector<int64_t> kernel, dilations, begins, ends;
    for (size_t a = 0; a < taps.size(); ++a) {
      const WindowAxis& axis = plan.conv.axes[a];
      kernel.push_back(taps[a].count);
      dilations.push_back(taps[a].count == 1 ? 1 : axis.dilation);
      begins.push_back(axis.pad_begin - taps[a].first * axis.dilation);
      ends.push_back(axis.pad_end - (axis.kernel - taps[a].first - taps[a].count) * axis.dilation);
    }
    if (*std::min_element(begins.begin(), begins.end()) < 0 || *std::min_element(ends.begin(), ends.end()) < 0)
      continue;
    trimmed.Remove("auto_pad");
    trimmed.Set("kernel_shape", kernel);
    trimmed.Set("dilations", dilations);
    begins.insert(begins.end(), ends.begin(), ends.end());
    trimmed.Set("pads", begins);
    trimmed.inputs[1] = editor.AddConstant(conv.inputs[1] + "_trimmed", Cut(Readable(*w), taps));
    editor.Replace(i, std::move(trimmed));
  }
  return editor.Finish();
}

}  // namespace ferry::cuda
