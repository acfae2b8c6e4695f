#include "providers/cuda/stride_attention.h"

#include <algorithm>
#include <cstring>

#include "ops/support/fused.h"
#include "ops/support/indices.h"
#include "passes/shapes.h"
#include "providers/cuda/attention_problem.h"
#include "tensor/alignment.h"

namespace ferry::cuda {
namespace {

// Elements of a value found in another one's memory. Each axis is a list of factors, the innermost last: as long as
// they stay multiples of each other an axis has one stride.
struct Factor {
  int64_t size, stride;
};
struct View {
  std::string base;
  int64_t offset = 0;
  std::vector<std::vector<Factor>> axes;
};

class Tracer {
 public:
  Tracer(const GraphEditor& editor, const GraphFacts& facts) : editor_(editor), facts_(facts) {}

  // As far back as every step is a view in strides.
  View Trace(const std::string& value, const Shape& shape) const {
    View view{value, 0, {}};
    const std::vector<int64_t> strides = shape.Strides();
    for (size_t i = 0; i < shape.rank(); ++i) view.axes.push_back({{shape[i], strides[i]}});
    while (std::optional<View> back = StepBack(view)) view = std::move(*back);
    return view;
  }

 private:
  std::optional<Shape> ShapeOf(const std::string& name) const { return KnownShape(facts_, name); }
  const Tensor* Constant(const Node& node, size_t i) const {
    const ValueFacts* facts = node.HasInput(i) ? facts_.Find(node.inputs[i]) : nullptr;
    return facts && facts->constant ? &*facts->constant : nullptr;
  }

  std::optional<View> StepBack(const View& view) const {
    const int producer = editor_.Producer(view.base);
    if (producer < 0) return std::nullopt;
    const Node& node = editor_.node(static_cast<size_t>(producer));
    if (!CanonicalDomain(node.domain).empty() || !node.HasInput(0)) return std::nullopt;
    const std::optional<Shape> made = ShapeOf(view.base), from = ShapeOf(node.inputs[0]);
    if (!made || !from || from->ElementCount() == 0) return std::nullopt;
    const std::string& op = node.op_type;
    if (op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Flatten" || op == "Identity") {
      View same = view;
      same.base = node.inputs[0];
      return same;
    }
    // Where each axis of what is made lies in where it comes from.
    std::vector<int64_t> strides = from->Strides();
    int64_t offset = 0;
    if (op == "Transpose") {
      std::vector<int64_t> turned;
      for (size_t axis : NormalizeAxes(node.Ints("perm"), from->rank())) turned.push_back(strides[axis]);
      if (turned.size() != made->rank()) return std::nullopt;
      strides = std::move(turned);
    } else if (op == "Gather") {
      const Tensor* index = Constant(node, 1);
      if (!index || index->rank() != 0) return std::nullopt;
      const size_t axis = NormalizeAxis(node.Int("axis", 0), from->rank());
      int64_t at = IntegerList(Readable(*index).Reshaped({1}), "indices")[0];
      if (at < 0) at += (*from)[axis];
      if (at < 0 || at >= (*from)[axis]) return std::nullopt;
      offset = at * strides[axis];
      strides.erase(strides.begin() + static_cast<long>(axis));
    } else if (op == "Split") {
      const size_t axis = NormalizeAxis(node.Int("axis", 0), from->rank());
      for (const std::string& output : node.outputs) {
        if (output == view.base) break;
        const std::optional<Shape> part = ShapeOf(output);
        if (!part) return std::nullopt;
        offset += (*part)[axis] * strides[axis];
      }
    } else {
      return std::nullopt;
    }
    return Moved(view, *made, strides, offset, node.inputs[0]);
  }

  // The view through an axis-by-axis map; nothing where a factor cuts through axes.
  static std::optional<View> Moved(const View& view, const Shape& made, const std::vector<int64_t>& strides,
                                   int64_t offset, const std::string& base) {
    const std::vector<int64_t> own = made.Strides();
    std::vector<int64_t> reach(made.rank(), 0);
    View moved{base, offset, {}};
    for (size_t axis = 0; axis < made.rank(); ++axis) {
      const int64_t at = view.offset / own[axis] % made[axis];
      reach[axis] = at;
      moved.offset += at * strides[axis];
    }
    for (const std::vector<Factor>& factors : view.axes) {
      std::vector<Factor>& out = moved.axes.emplace_back();
      for (const Factor& factor : factors)
        if (!Split(factor, made, own, strides, reach, out)) return std::nullopt;
    }
    for (size_t axis = 0; axis < made.rank(); ++axis)
      if (reach[axis] >= made[axis]) return std::nullopt;
    return moved;
  }

  static bool Split(const Factor& factor, const Shape& made, const std::vector<int64_t>& own,
                    const std::vector<int64_t>& strides, std::vector<int64_t>& reach, std::vector<Factor>& out) {
    std::vector<Factor> found;  // the innermost first
    int64_t size = factor.size, stride = factor.stride;
    while (size > 1) {
      // The axis that the stride lies in: the outermost one whose own stride divides it.
      size_t axis = made.rank();
      for (size_t i = 0; i < made.rank() && axis == made.rank(); ++i)
        if (made[i] > 1 && own[i] <= stride) axis = i;
      if (axis == made.rank() || stride % own[axis] != 0) return false;
      const int64_t step = stride / own[axis];
      if (made[axis] % step != 0) return false;
      const int64_t room = made[axis] / step, taken = std::min(size, room);
      if (size % taken != 0) return false;
      found.push_back({taken, strides[axis] * step});
      reach[axis] += (taken - 1) * step;
      size /= taken;
      stride *= taken;
    }
    out.insert(out.end(), found.rbegin(), found.rend());
    return true;
  }

  const GraphEditor& editor_;
  const GraphFacts& facts_;
};

// The one stride of an axis; 0 where it has one element, nothing where it has several.
std::optional<int64_t> StrideOf(const std::vector<Factor>& factors) {
  int64_t size = 1, stride = 0;
  for (size_t i = factors.size(); i-- > 0;) {
    if (factors[i].size == 1) continue;
    if (size == 1)
      stride = factors[i].stride;
    else if (factors[i].stride != size * stride)
      return std::nullopt;
    size *= factors[i].size;
  }
  return stride;
}

// An operand as attention takes it: which axes of its value are images, heads, rows and columns.
struct Order {
  int axes[4];  // -1: there is none
};
Order OrderOf(size_t rank, AttentionForm form) {
  const int last = static_cast<int>(rank) - 1;
  if (form == AttentionForm::kHeadsInside) return {{0, 2, 1, 3}};
  Order order{{rank == 4 ? 0 : -1, rank >= 3 ? last - 2 : -1, last - 1, last}};
  if (form == AttentionForm::kTransposed) std::swap(order.axes[2], order.axes[3]);
  return order;
}

class AttentionStrider {
 public:
  AttentionStrider(Graph& graph, GraphFacts& facts, bool tf32, int compute_major)
      : editor_(graph), facts_(facts), tf32_(tf32), compute_major_(compute_major) {}

  void Run() {
    const size_t count = editor_.size();
    for (size_t i = 0; i < count; ++i)
      if (!editor_.removed(i) && editor_.node(i).op_type == "FusedAttention" &&
          editor_.node(i).domain == kInternalDomain)
        Rewrite(i);
    editor_.Finish();
  }

 private:
  std::optional<Shape> ShapeOf(const std::string& name) const { return KnownShape(facts_, name); }
  DType TypeOf(const std::string& name) const {
    const ValueFacts* facts = facts_.Find(name);
    return facts && facts->type.is_tensor() ? facts->type.dtype : DType::kUndefined;
  }

  // Offset and strides in the order of attention; empty when the value cannot be reached by them.
  std::vector<int64_t> Reached(const std::string& value, const Shape& shape, AttentionForm form,
                               std::string& base) const {
    const View view = Tracer(editor_, facts_).Trace(value, shape);
    std::vector<int64_t> strides{view.offset};
    for (int axis : OrderOf(shape.rank(), form).axes) {
      const std::optional<int64_t> stride = axis < 0 ? 0 : StrideOf(view.axes[static_cast<size_t>(axis)]);
      if (!stride) return {};
      strides.push_back(*stride);
    }
    base = view.base;
    return strides;
  }

  void Rewrite(size_t index) {
    const Node& node = editor_.node(index);
    const std::optional<Shape> q = ShapeOf(node.inputs[0]), k = ShapeOf(node.inputs[1]), v = ShapeOf(node.inputs[2]);
    const bool has_mask = node.HasInput(3);
    const std::optional<Shape> mask = has_mask ? ShapeOf(node.inputs[3]) : std::nullopt;
    if (!q || !k || !v || (has_mask && !mask)) return;
    const std::optional<Problem> problem = ProblemOf(node, *q, *k, *v, mask ? &*mask : nullptr);
    if (!problem) return;
    const DType type = TypeOf(node.inputs[0]);
    FlashProblem flash = AsFlash(node, *problem, type, has_mask ? TypeOf(node.inputs[3]) : DType::kUndefined);
    Node strided;
    strided.op_type = "StridedAttention";
    strided.domain = kInternalDomain;
    strided.name = node.name;
    strided.inputs = node.inputs;
    strided.outputs = node.outputs;
    const std::pair<const char*, const char*> names[] = {
        {"q_form", "q_view"}, {"k_form", "k_view"}, {"v_form", "v_view"}};
    const Shape* shapes[] = {&*q, &*k, &*v};
    int64_t* places[] = {flash.q, flash.k, flash.v};
    for (size_t i = 0; i < 3; ++i) {
      std::string base;
      std::vector<int64_t> reached = Reached(node.inputs[i], *shapes[i], AttentionFormOf(node, names[i].first), base);
      if (reached.empty() || reached[0] * BitWidth(type) % 128 != 0 || (i != 1 && reached[4] != 1)) return;
      std::copy(reached.begin() + 1, reached.begin() + (i == 1 ? 5 : 4), places[i]);
      strided.inputs[i] = base;
      strided.Set(names[i].second, std::move(reached));
    }
    if (has_mask && TakeRepeatedMask(node.inputs[3], *mask, strided.inputs[3], flash))
      strided.Set("mask_images", flash.mask_images);
    const int writer = FollowingTranspose(node.outputs[0]);
    Shape shape = problem->shape;
    if (writer >= 0) Turn(editor_.node(static_cast<size_t>(writer)), AttentionFormOf(node, "out_form"), shape, flash);
    if (!RunsAsFlash(flash, compute_major_, tf32_)) return;
    strided.Set("out_view", std::vector<int64_t>{0, flash.out[0], flash.out[1], flash.out[2], 1});
    strided.Set("mask_view", std::vector<int64_t>{0, flash.mask[0], flash.mask[1], flash.mask[2], flash.mask[3]});
    strided.Set("sizes", std::vector<int64_t>{flash.batch, flash.heads, flash.sharing, flash.queries, flash.keys,
                                              flash.depth, flash.values});
    strided.Set("shape", shape.ToVector());
    strided.Set("scale", flash.scale);
    strided.Set("nan_to_zero", int64_t{flash.nan_to_zero});
    if (writer >= 0) {
      strided.outputs = editor_.node(static_cast<size_t>(writer)).outputs;
      editor_.Remove(static_cast<size_t>(writer));
    }
    editor_.Replace(index, std::move(strided));
  }

  // A mask [images, heads, rows, columns] that Expand and Reshape made out of fewer images, as windows have it: those
  // are read again and again.
  bool TakeRepeatedMask(const std::string& mask, const Shape& shape, std::string& base, FlashProblem& flash) const {
    const int view = editor_.Producer(mask);
    if (view < 0 || editor_.node(static_cast<size_t>(view)).op_type != "Reshape" || shape.rank() != 4) return false;
    const std::string& repeated = editor_.node(static_cast<size_t>(view)).inputs[0];
    const int expand = editor_.Producer(repeated);
    if (expand < 0 || editor_.node(static_cast<size_t>(expand)).op_type != "Expand") return false;
    const std::string& from = editor_.node(static_cast<size_t>(expand)).inputs[0];
    const std::optional<Shape> whole = ShapeOf(repeated), few = ShapeOf(from);
    if (!whole || !few || whole->rank() != 5 || few->rank() != 5 || (*few)[0] != 1) return false;
    for (size_t i = 1; i < 5; ++i)
      if ((*few)[i] != (*whole)[i] || (i > 1 && (*whole)[i] != shape[i - 1])) return false;
    const std::vector<int64_t> strides = few->Strides();
    for (size_t i = 0; i < 4; ++i) flash.mask[i] = (*few)[i + 1] == 1 ? 0 : strides[i + 1];
    flash.mask_images = (*few)[1];
    base = from;
    return true;
  }

  // The only reader of a result, where that puts its axes in another order but leaves columns last.
  int FollowingTranspose(const std::string& result) const {
    const int reader = editor_.OnlyReader(result);
    if (reader < 0) return -1;
    const Node& node = editor_.node(static_cast<size_t>(reader));
    const std::vector<int64_t> order = node.Ints("perm");
    const bool turns = node.op_type == "Transpose" && CanonicalDomain(node.domain).empty() && order.size() >= 2 &&
                       order.back() == static_cast<int64_t>(order.size()) - 1 && ShapeOf(node.outputs[0]);
    return turns ? reader : -1;
  }

  void Turn(const Node& transpose, AttentionForm form, Shape& shape, FlashProblem& flash) const {
    const std::vector<int64_t> order = transpose.Ints("perm");
    const Shape turned = *ShapeOf(transpose.outputs[0]);
    const std::vector<int64_t> strides = turned.Strides();
    const Order places = OrderOf(shape.rank(), form);
    for (int i = 0; i < 3; ++i) {
      if (places.axes[i] < 0) continue;
      const auto at = std::find(order.begin(), order.end(), places.axes[i]);
      flash.out[i] = strides[static_cast<size_t>(at - order.begin())];
    }
    shape = turned;
  }

  GraphEditor editor_;
  GraphFacts& facts_;
  const bool tf32_;
  const int compute_major_;
};

bool IsProjection(const GraphEditor& editor, const Node& node) {
  if (node.op_type != "FusedMatMul" || node.domain != kInternalDomain || node.HasInput(3) || node.HasInput(4) ||
      node.inputs.size() < 2 || node.Int("transB", 0) != 0 || ActivationOf(node).kind != ActivationKind::kNone)
    return false;
  const Tensor *weights = editor.Constant(node.inputs[1]),
               *bias = node.HasInput(2) ? editor.Constant(node.inputs[2]) : nullptr;
  if (!weights || weights->rank() != 2 || weights->dtype() != DType::kFloat || (node.HasInput(2) && !bias))
    return false;
  if (bias && (bias->size() != weights->dim(1) || bias->dtype() != DType::kFloat)) return false;
  const int reader = editor.OnlyReader(node.outputs[0]);
  return reader >= 0 && editor.node(static_cast<size_t>(reader)).op_type == "Reshape";
}

// Columns of all, side by side.
Tensor Joined(const std::vector<Tensor>& parts) {
  const int64_t rows = parts[0].rank() == 2 ? parts[0].dim(0) : 1;
  int64_t columns = 0;
  for (const Tensor& part : parts) columns += part.size() / std::max<int64_t>(1, rows);
  Tensor joined(DType::kFloat, parts[0].rank() == 2 ? Shape{rows, columns} : Shape{columns});
  float* to = joined.MutableData<float>();
  for (int64_t row = 0; row < rows; ++row)
    for (const Tensor& part : parts) {
      const int64_t width = part.size() / std::max<int64_t>(1, rows);
      std::memcpy(to, part.raw() + static_cast<size_t>(row * width) * sizeof(float),
                  static_cast<size_t>(width) * sizeof(float));
      to += width;
    }
  return joined;
}

}  // namespace

void StrideAttention(Graph& graph, GraphFacts& facts, bool tf32, int compute_major) {
  AttentionStrider(graph, facts, tf32, compute_major).Run();
}

void MergeProjections(Graph& graph) {
  GraphEditor editor(graph);
  const size_t count = editor.size();
  for (size_t i = 0; i < count; ++i) {
    if (editor.removed(i) || !IsProjection(editor, editor.node(i))) continue;
    const Node& first = editor.node(i);
    std::vector<size_t> group;
    const Tensor& weights = *editor.Constant(first.inputs[1]);
    for (size_t other : editor.Readers(first.inputs[0])) {
      const Node& node = editor.node(other);
      if (editor.removed(other) || !IsProjection(editor, node) || node.inputs[0] != first.inputs[0] ||
          node.HasInput(2) != first.HasInput(2) || editor.Constant(node.inputs[1])->dim(0) != weights.dim(0) ||
          std::find(group.begin(), group.end(), other) != group.end())
        continue;
      group.push_back(other);
    }
    if (group.size() < 2) continue;
    std::sort(group.begin(), group.end());
    std::vector<Tensor> matrices, biases;
    std::vector<std::string> outputs;
    Tensor lengths(DType::kInt64, {static_cast<int64_t>(group.size())});
    for (size_t member = 0; member < group.size(); ++member) {
      const Node& node = editor.node(group[member]);
      matrices.push_back(Readable(*editor.Constant(node.inputs[1])));
      if (node.HasInput(2)) biases.push_back(Readable(*editor.Constant(node.inputs[2])));
      lengths.MutableData<int64_t>()[member] = matrices.back().dim(1);
      outputs.push_back(node.outputs[0]);
    }
    Node product, split;
    product.op_type = "FusedMatMul";
    product.domain = kInternalDomain;
    product.name = first.name;
    product.inputs = {first.inputs[0], editor.AddConstant("joined", Joined(matrices))};
    if (!biases.empty()) product.inputs.push_back(editor.AddConstant("joined", Joined(biases)));
    product.outputs = {editor.FreshName("joined")};
    split.op_type = "Split";
    split.name = product.name;
    split.inputs = {product.outputs[0], editor.AddConstant("lengths", std::move(lengths))};
    split.outputs = outputs;
    split.Set("axis", int64_t{-1});
    for (size_t member : group)
      if (member != group[0]) editor.Remove(member);
    editor.Remove(group[0]);
    editor.InsertBefore(group[0], std::move(product));
    editor.Replace(group[0], std::move(split));
  }
  editor.Finish();
}

}  // namespace ferry::cuda
