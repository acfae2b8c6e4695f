#include <algorithm>

#include "ops/support/indices.h"
#include "ops/support/split.h"
#include "providers/cuda/join_rows.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/operators.h"

namespace ferry::cuda {
namespace {

size_t BytesOf(DType type) { return static_cast<size_t>(BitWidth(type)) / 8; }

void Copy(const Device& device, Walk walk, const Tensor& from, Tensor& to) {
  CopyWalk(device, std::move(walk), BytesOf(from.dtype()), from.address(), to.address());
}

void Transpose(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  std::vector<int64_t> order = context.node().Ints("perm");
  if (order.empty())
    for (size_t i = x.rank(); i-- > 0;) order.push_back(static_cast<int64_t>(i));
  Require(order.size() == x.rank(), "perm has ", order.size(), " axes, the input ", x.rank());
  const std::vector<size_t> axes = NormalizeAxes(order, x.rank());
  const std::vector<int64_t> strides = x.shape().Strides();
  Shape shape;
  Walk walk;
  for (size_t axis : axes) {
    shape.push_back(x.dim(axis));
    walk.from.push_back(strides[axis]);
  }
  walk.dims = shape.ToVector();
  walk.to = shape.Strides();
  Copy(device, std::move(walk), x, context.Output(0, x.dtype(), shape));
}

void Concat(const Device& device, OpContext& context) {
  const Tensor& first = context.Input(0);
  const size_t axis = NormalizeAxis(context.node().Int("axis", 0), first.rank());
  Shape shape = first.shape();
  shape[axis] = 0;
  for (size_t i = 0; i < context.input_count(); ++i) {
    const Tensor& part = context.Input(i);
    Require(part.rank() == shape.rank() && part.dtype() == first.dtype(), "parts of ", first.dtype(), first.shape(),
            " and ", part.dtype(), part.shape(), " do not fit together");
    for (size_t j = 0; j < shape.rank(); ++j)
      Require(j == axis || part.dim(j) == first.dim(j), "parts of shapes ", first.shape(), " and ", part.shape(),
              " differ beside axis ", axis);
    shape[axis] += part.dim(axis);
  }
  Tensor& y = context.Output(0, first.dtype(), shape);
  std::vector<const Tensor*> parts;
  std::vector<int64_t> columns;
  for (size_t i = 0; i < context.input_count(); ++i) {
    parts.push_back(&context.Input(i));
    columns.push_back(parts.back()->shape().CountBetween(axis, shape.rank()));
  }
  JoinRows(device, parts, columns, y);
}

const Graph* BodyOf(const Node& node) {
  const Attribute* attribute = node.Find("body");
  auto* graphs = attribute ? std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute->held) : nullptr;
  return graphs && graphs->size() == 1 ? graphs->front().get() : nullptr;
}

// A chain that FuseJoinScaled made: Concat, Mul, perhaps Add, perhaps Relu.
std::optional<ChosenKernel> ChooseJoinScaled(const OperatorRequest& request) {
  const Graph* body = request.IsInternal("ElementwiseChain") ? BodyOf(request.node()) : nullptr;
  if (!body || body->nodes.size() < 2 || body->nodes[0].op_type != "Concat") return std::nullopt;
  const std::vector<std::string>& inputs = request.node().inputs;
  auto place = [&](const std::string& name) {
    return static_cast<size_t>(std::find(inputs.begin(), inputs.end(), name) - inputs.begin());
  };
  std::vector<size_t> parts;
  std::vector<int64_t> columns;
  for (const std::string& name : body->nodes[0].inputs) {
    parts.push_back(place(name));
    const std::optional<Shape> shape = request.ShapeOf(parts.back());
    if (!shape || shape->rank() == 0) return std::nullopt;
    columns.push_back(shape->back());
  }
  if (!CanJoinScaled(request.TypeOf(parts[0]), columns)) return std::nullopt;
  const bool has_offset = body->nodes.size() > 2 && body->nodes[2].op_type == "Add";
  const bool is_limited = body->nodes.back().op_type == "Relu";
  const size_t factor = place(body->nodes[1].inputs[1]), offset = has_offset ? place(body->nodes[2].inputs[1]) : 0;
  return OnDevice(request, "join", [=](const Device& device, OpContext& context) {
    std::vector<const Tensor*> given;
    int64_t width = 0;
    for (size_t i : parts) given.push_back(&context.Input(i));
    for (int64_t count : columns) width += count;
    Shape shape = given[0]->shape();
    shape.back() = width;
    ColumnScaling scaling{&context.Input(factor), has_offset ? &context.Input(offset) : nullptr};
    if (is_limited) scaling.low = 0;
    JoinScaled(device, given, columns, scaling, context.Output(0, given[0]->dtype(), shape));
  });
}

void Split(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  const size_t axis = NormalizeAxis(context.node().Int("axis", 0), x.rank());
  std::vector<int64_t> lengths;
  if (const Tensor* split = context.OptionalInput(1)) {
    lengths = IntegerList(*split, "split");
    Require(lengths.size() == context.output_count(), "split has ", lengths.size(), " lengths, the node has ",
            context.output_count(), " outputs");
    CheckLengths(lengths, x.dim(axis), axis);
  } else {
    lengths = EvenLengths(x.dim(axis), static_cast<int64_t>(context.output_count()));
  }
  const std::vector<int64_t> strides = x.shape().Strides();
  int64_t begin = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    Shape shape = x.shape();
    shape[axis] = lengths[i];
    if (context.Wants(i))
      Copy(device, {shape.ToVector(), strides, shape.Strides(), begin * strides[axis], 0}, x,
           context.Output(i, x.dtype(), shape));
    begin += lengths[i];
  }
}

// Starts, ends, axes and steps are read on the host.
void Slice(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  const std::vector<int64_t> starts = IntegerList(context.Input(1), "starts"),
                             ends = IntegerList(context.Input(2), "ends");
  std::vector<int64_t> named, steps(starts.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) named.push_back(static_cast<int64_t>(i));
  if (context.Has(3)) named = IntegerList(context.Input(3), "axes");
  if (context.Has(4)) steps = IntegerList(context.Input(4), "steps");
  Require(ends.size() == starts.size() && named.size() == starts.size() && steps.size() == starts.size(),
          "starts, ends, axes and steps have different lengths");
  const std::vector<size_t> axes = NormalizeAxes(named, x.rank());
  Shape shape = x.shape();
  Walk walk;
  walk.from = x.shape().Strides();
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t size = x.dim(axes[i]), step = std::max<int64_t>(steps[i], -INT64_MAX);
    Require(step != 0, "a step of a slice cannot be 0");
    auto placed = [&](int64_t index) { return index < 0 ? (index < -size ? -1 : index + size) : index; };
    int64_t from, count;
    if (step > 0) {
      from = starts[i] < -size ? 0 : std::clamp<int64_t>(placed(starts[i]), 0, size);
      const int64_t to = ends[i] < -size ? 0 : std::clamp<int64_t>(placed(ends[i]), 0, size);
      count = to > from ? (to - from - 1) / step + 1 : 0;
    } else {
      from = starts[i] < -size ? 0 : std::min(placed(starts[i]), size - 1);
      const int64_t to = ends[i] < -size ? -1 : std::min(placed(ends[i]), size - 1);
      count = from > to ? (from - to - 1) / -step + 1 : 0;
    }
    shape[axes[i]] = size == 0 ? 0 : count;
    walk.from_offset += count > 0 ? from * walk.from[axes[i]] : 0;
    walk.from[axes[i]] *= count > 1 ? step : 1;
  }
  walk.dims = shape.ToVector();
  walk.to = shape.Strides();
  Copy(device, std::move(walk), x, context.Output(0, x.dtype(), shape));
}

void Expand(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  const Shape shape = BroadcastShapes(x.shape(), Shape(IntegerList(context.Input(1), "shape")));
  Walk walk{shape.ToVector(), std::vector<int64_t>(shape.rank(), 0), shape.Strides()};
  const std::vector<int64_t> strides = x.shape().Strides();
  for (size_t i = 0; i < x.rank(); ++i)
    if (x.dim(i) != 1) walk.from[shape.rank() - x.rank() + i] = strides[i];
  Copy(device, std::move(walk), x, context.Output(0, x.dtype(), shape));
}

void RunGather(const Device& device, OpContext& context) {
  const Tensor &x = context.Input(0), &indices = context.Input(1);
  const size_t axis = NormalizeAxis(context.node().Int("axis", 0), x.rank());
  Shape shape(x.shape().dims().first(axis));
  for (int64_t dim : indices.shape()) shape.push_back(dim);
  for (size_t i = axis + 1; i < x.rank(); ++i) shape.push_back(x.dim(i));
  Require(x.dim(axis) > 0 || shape.ElementCount() == 0, "nothing can be gathered from ", x.shape(), " along axis ",
          axis);
  Gather(device, x, axis, indices, context.Output(0, x.dtype(), shape));
}

// A chain that FuseJoinCasts made: Casts, then the Concat of what they make and of other inputs.
std::optional<ChosenKernel> ChooseJoinMixed(const OperatorRequest& request) {
  const Graph* body = request.IsInternal("ElementwiseChain") ? BodyOf(request.node()) : nullptr;
  if (!body || body->nodes.size() < 2 || body->nodes.back().op_type != "Concat") return std::nullopt;
  const std::optional<Shape> made = request.ResultShape();
  if (!made) return std::nullopt;
  const size_t axis = NormalizeAxis(body->nodes.back().Int("axis", 0), made->rank());
  std::vector<size_t> parts;
  std::vector<DType> types;
  std::vector<int64_t> columns;
  for (std::string name : body->nodes.back().inputs) {
    for (const Node& node : body->nodes)
      if (node.op_type == "Cast" && node.outputs[0] == name) name = node.inputs[0];
    const std::vector<std::string>& inputs = request.node().inputs;
    parts.push_back(static_cast<size_t>(std::find(inputs.begin(), inputs.end(), name) - inputs.begin()));
    const std::optional<Shape> shape = request.ShapeOf(parts.back());
    if (!shape || shape->rank() != made->rank()) return std::nullopt;
    types.push_back(request.TypeOf(parts.back()));
    columns.push_back(shape->CountBetween(axis, shape->rank()));
  }
  const DType type = request.ResultType();
  if (!CanJoinMixed(types, type, columns)) return std::nullopt;
  return OnDevice(request, "join", [=, shape = *made](const Device& device, OpContext& context) {
    std::vector<const Tensor*> given;
    for (size_t i : parts) given.push_back(&context.Input(i));
    JoinMixed(device, given, columns, context.Output(0, type, shape));
  });
}

}  // namespace

std::optional<ChosenKernel> ChooseMove(const OperatorRequest& request) {
  if (!CanCopy(request.TypeOf(0))) return std::nullopt;
  for (auto choose : {ChooseJoinScaled, ChooseJoinMixed})
    if (std::optional<ChosenKernel> joined = choose(request)) return joined;
  if (request.Is("Transpose")) return OnDevice(request, "walk", Transpose);
  if (request.Is("Concat")) return OnDevice(request, "walk", Concat);
  if (request.Is("Split")) return OnDevice(request, "walk", Split, InputBit(1));
  if (request.Is("Slice"))
    return OnDevice(request, "walk", Slice, InputBit(1) | InputBit(2) | InputBit(3) | InputBit(4));
  if (request.Is("Expand")) return OnDevice(request, "walk", Expand, InputBit(1));
  const DType index = request.TypeOf(1);
  if (request.Is("Gather") && (index == DType::kInt64 || index == DType::kInt32))
    return OnDevice(request, "gather", RunGather);
  return std::nullopt;
}

}  // namespace ferry::cuda
