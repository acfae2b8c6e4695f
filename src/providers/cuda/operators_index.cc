// Elements found, chosen and placed by index; values made from where they stand.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/support/cast_tensor.h"
#include "ops/support/elements.h"
#include "ops/support/indices.h"
#include "ops/support/scalar.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/kernels_index.h"
#include "providers/cuda/operators.h"
#include "tensor/alignment.h"

namespace ferry::cuda {
namespace {

constexpr size_t kMostAxes = 8;

bool IsIndex(DType type) { return type == DType::kInt64 || type == DType::kInt32; }

void RunCumulate(const Device& device, OpContext& context, Running how) {
  const Tensor& x = context.Input(0);
  const size_t axis = NormalizeAxis(ScalarInt(context.Input(1), "axis"), x.rank());
  how.exclusive = context.node().Int("exclusive", 0) != 0;
  how.reverse = context.node().Int("reverse", 0) != 0;
  Cumulate(device, how, LineShape(x.shape(), axis), x, context.Output(0, x.dtype(), x.shape()));
}

void RunBest(const Device& device, OpContext& context, BestElement how) {
  const Tensor& x = context.Input(0);
  const Node& node = context.node();
  const size_t axis = NormalizeAxis(node.Int("axis", 0), x.rank());
  how.takes_last = node.Int("select_last_index", 0) != 0;
  Shape shape = x.shape();
  if (node.Int("keepdims", 1) != 0)
    shape[axis] = 1;
  else
    shape.erase(axis);
  Tensor& y = context.Output(0, DType::kInt64, shape);
  Require(x.dim(axis) > 0 || y.size() == 0, "axis ", axis, " of shape ", x.shape(),
          " is empty: there is no best element");
  FindBest(device, how, LineShape(x.shape(), axis), x, y);
}

void RunTopK(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  const int64_t count = ScalarInt(context.Input(1), "K");
  const size_t axis = NormalizeAxis(context.node().Int("axis", -1), x.rank());
  Require(count >= 0 && count <= x.dim(axis), "K is ", count, ", axis ", axis, " has ", x.dim(axis), " elements");
  Shape shape = x.shape();
  shape[axis] = count;
  Tensor& values = context.Output(0, x.dtype(), shape);
  Tensor& places = context.Output(1, DType::kInt64, shape);
  FindTop(device, context.node().Int("largest", 1) != 0, count, LineShape(x.shape(), axis), x, values, places);
}

void RunGatherElements(const Device& device, OpContext& context) {
  const Tensor &x = context.Input(0), &indices = context.Input(1);
  const size_t axis = NormalizeAxis(context.node().Int("axis", 0), x.rank());
  CheckElementIndices(x.shape(), indices.shape(), axis);
  Require(x.dim(axis) > 0 || indices.size() == 0, "nothing can be gathered from ", x.shape(), " along axis ", axis);
  GatherElements(device, x, axis, indices, context.Output(0, x.dtype(), indices.shape()));
}

void CopyData(const Device& device, const Tensor& from, Tensor& to) {
  if (from.address() != to.address()) device.memory().CopyInside(to.address(), from.address(), from.bytes());
}

void RunScatterElements(const Device& device, OpContext& context, Scatter how) {
  const Tensor &x = context.Input(0), &indices = context.Input(1), &updates = context.Input(2);
  const size_t axis = NormalizeAxis(context.node().Int("axis", 0), x.rank());
  CheckElementIndices(x.shape(), indices.shape(), axis);
  Require(updates.shape() == indices.shape(), "updates of shape ", updates.shape(), " must have the shape of indices, ",
          indices.shape());
  Require(x.dim(axis) > 0 || indices.size() == 0, "nothing can be scattered to ", x.shape(), " along axis ", axis);
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  CopyData(device, x, y);
  ScatterElements(device, how, axis, indices, updates, y);
}

void RequireTuples(const Shape& x, const Shape& indices, size_t batch_axes) {
  Require(x.rank() > batch_axes && indices.rank() > batch_axes, "data of shape ", x, " and indices of shape ", indices,
          " do not share ", batch_axes, " axes");
  for (size_t i = 0; i < batch_axes; ++i)
    Require(x[i] == indices[i], "batch axis ", i, " differs in shapes ", x, " and ", indices);
  const int64_t tuple = indices.back();
  Require(tuple >= 1 && tuple <= static_cast<int64_t>(x.rank() - batch_axes), "index tuples of length ", tuple,
          " do not fit data of shape ", x, " with ", batch_axes, " axes of a batch");
}

Shape PartsShape(const Shape& x, const Shape& indices, size_t batch_axes) {
  Shape shape(indices.dims().first(indices.rank() - 1));
  for (size_t i = batch_axes + static_cast<size_t>(indices.back()); i < x.rank(); ++i) shape.push_back(x[i]);
  return shape;
}

void RunGatherND(const Device& device, OpContext& context) {
  const Tensor &x = context.Input(0), &indices = context.Input(1);
  const int64_t batch = context.node().Int("batch_dims", 0);
  Require(batch >= 0 && batch < static_cast<int64_t>(std::min(x.rank(), indices.rank())), "batch_dims ", batch,
          " does not fit ranks ", x.rank(), " and ", indices.rank());
  const auto axes = static_cast<size_t>(batch);
  RequireTuples(x.shape(), indices.shape(), axes);
  Tensor& y = context.Output(0, x.dtype(), PartsShape(x.shape(), indices.shape(), axes));
  Require(x.size() > 0 || y.size() == 0, "nothing can be gathered from ", x.shape());
  GatherParts(device, x, axes, indices, y);
}

void RunScatterND(const Device& device, OpContext& context, Scatter how) {
  const Tensor &x = context.Input(0), &indices = context.Input(1), &updates = context.Input(2);
  RequireTuples(x.shape(), indices.shape(), 0);
  const Shape wanted = PartsShape(x.shape(), indices.shape(), 0);
  Require(updates.shape() == wanted, "updates have shape ", updates.shape(), ", expected ", wanted);
  Require(x.size() > 0 || updates.size() == 0, "nothing can be scattered to ", x.shape());
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  CopyData(device, x, y);
  ScatterParts(device, how, indices, updates, y);
}

void RunNonZero(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  FindNonZero(device, x, [&](int64_t count) -> Tensor& {
    return context.Output(0, DType::kInt64, {static_cast<int64_t>(x.rank()), count});
  });
}

void RunOneHot(const Device& device, OpContext& context) {
  const Tensor &indices = context.Input(0), &values = context.Input(2);
  const int64_t depth = ScalarInt(context.Input(1), "depth");
  Require(depth >= 0, "depth ", depth, " is negative");
  Require(values.size() == 2, "values must be [off, on], have shape ", values.shape());
  const size_t axis = NormalizeAxis(context.node().Int("axis", -1), indices.rank() + 1);
  Shape shape = indices.shape();
  shape.insert(axis, depth);
  FillOneHot(device, LineShape(shape, axis), indices, values, context.Output(0, values.dtype(), shape));
}

void RunTrilu(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.rank() >= 2, "the input must be at least a matrix, has shape ", x.shape());
  const int64_t k = context.Has(1) ? ScalarInt(context.Input(1), "k") : 0;
  TakeTriangle(device, context.node().Int("upper", 1) != 0, k, x, context.Output(0, x.dtype(), x.shape()));
}

// Start, limit and delta are read on the host.
void RunRange(const Device& device, OpContext& context) {
  const Tensor &start = context.Input(0), &limit = context.Input(1), &delta = context.Input(2);
  const DType type = start.dtype();
  Require(limit.dtype() == type && delta.dtype() == type, "start is ", type, ", limit or delta is not");
  if (IsFloating(type)) {
    const double from = ScalarFloat(start, "start"), to = ScalarFloat(limit, "limit"), by = ScalarFloat(delta, "delta");
    Require(std::isfinite(from) && std::isfinite(to) && by == by && by != 0, "a range from ", from, " to ", to, " by ",
            by, " has no length");
    const double count = std::max(0.0, std::ceil((to - from) / by));
    if (count >= 0x1p62) Fail(ErrorCode::kLimit, "a range of ", count, " numbers is too long");
    return FillRange(device, from, by, 0, 0, context.Output(0, type, {static_cast<int64_t>(count)}));
  }
  const int64_t from = ScalarInt(start, "start"), to = ScalarInt(limit, "limit"), by = ScalarInt(delta, "delta");
  Require(by != 0, "the delta of a range cannot be 0");
  int64_t count = 0;
  if (by > 0 ? from < to : from > to) {
    const uint64_t span = by > 0 ? static_cast<uint64_t>(to) - static_cast<uint64_t>(from)
                                 : static_cast<uint64_t>(from) - static_cast<uint64_t>(to);
    const uint64_t step = by > 0 ? static_cast<uint64_t>(by) : uint64_t{0} - static_cast<uint64_t>(by);
    if ((span - 1) / step >= INT64_MAX) Fail(ErrorCode::kLimit, "a range from ", from, " to ", to, " is too long");
    count = static_cast<int64_t>((span - 1) / step) + 1;
  }
  FillRange(device, 0, 0, from, by, context.Output(0, type, {count}));
}

void RunConstantOfShape(const Device& device, OpContext& context) {
  const Node& node = context.node();
  Tensor value = node.Has("value") ? Readable(node.TensorAttribute("value")) : Tensor::Scalar(0.0f);
  Require(value.size() == 1, "attribute 'value' must have one element, has shape ", value.shape());
  uint64_t bits = 0;
  std::memcpy(&bits, value.raw(), value.bytes());
  Fill(device, bits, context.Output(0, value.dtype(), Shape(IntegerList(context.Input(0), "the shape"))));
}

void RunTile(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  const std::vector<int64_t> repeats = IntegerList(context.Input(1), "repeats");
  Require(repeats.size() == x.rank(), "there are ", repeats.size(), " repeats for ", x.rank(), " axes");
  Shape shape = x.shape();
  for (size_t i = 0; i < x.rank(); ++i) {
    Require(repeats[i] >= 0, "an axis cannot be repeated ", repeats[i], " times");
    shape[i] = CheckedProduct(shape[i], repeats[i]);
  }
  Tensor& y = context.Output(0, x.dtype(), shape);
  const std::vector<int64_t> from = x.shape().Strides(), to = shape.Strides();
  Walk walk;
  for (size_t i = 0; i < x.rank(); ++i)
    for (bool inside : {false, true}) {
      walk.dims.push_back(inside ? x.dim(i) : repeats[i]);
      walk.from.push_back(inside ? from[i] : 0);
      walk.to.push_back(inside ? to[i] : to[i] * x.dim(i));
    }
  CopyWalk(device, std::move(walk), static_cast<size_t>(BitWidth(x.dtype())) / 8, x.address(), y.address());
}

// [N, depth · block², h, w] and [N, depth, h · block, w · block], walked over [N, depth, h, row, w, column].
void RunBlocks(const Device& device, OpContext& context, bool to_space) {
  const Tensor& x = context.Input(0);
  const int64_t block = context.node().Int("blocksize", 0);
  Require(block > 0 && block <= INT32_MAX, "blocksize ", block, " is not a positive number");
  Require(x.rank() == 4, "the input must have four axes, has shape ", x.shape());
  const bool divides = to_space ? x.dim(1) % (block * block) == 0 : x.dim(2) % block == 0 && x.dim(3) % block == 0;
  Require(divides, "shape ", x.shape(), " does not divide into blocks of ", block, "×", block);
  const bool depth_first = context.node().String("mode", "DCR") == "DCR";
  const int64_t depth = to_space ? x.dim(1) / (block * block) : x.dim(1),
                height = to_space ? x.dim(2) : x.dim(2) / block, width = to_space ? x.dim(3) : x.dim(3) / block;
  const int64_t plane = height * width, blocks = block * block, row = width * block,
                column = depth_first ? depth * plane : plane;
  const std::vector<int64_t> sizes{x.dim(0), depth, height, block, width, block},
      deep{depth * blocks * plane, depth_first ? plane : blocks * plane, width, column * block, 1, column},
      wide{depth * height * block * row, height * block * row, block * row, row, block, 1};
  const Shape shape =
      to_space ? Shape{x.dim(0), depth, height * block, width * block} : Shape{x.dim(0), depth * blocks, height, width};
  Tensor& y = context.Output(0, x.dtype(), shape);
  CopyWalk(device, {sizes, to_space ? deep : wide, to_space ? wide : deep},
           static_cast<size_t>(BitWidth(x.dtype())) / 8, x.address(), y.address());
}

std::optional<ChosenKernel> ChooseScatter(const OperatorRequest& request, bool by_tuple) {
  const std::optional<Scatter> how = ScatterNamed(request.node().String("reduction", "none"));
  if (!how || !CanScatter(*how, request.TypeOf(0))) return std::nullopt;
  return OnDevice(request, "scatter", [how = *how, by_tuple](const Device& device, OpContext& context) {
    by_tuple ? RunScatterND(device, context, how) : RunScatterElements(device, context, how);
  });
}

// Operators whose second input is a tensor of indices.
std::optional<ChosenKernel> ChooseByIndex(const OperatorRequest& request) {
  const std::optional<Shape> x = request.ShapeOf(0), indices = request.ShapeOf(1);
  if (!IsIndex(request.TypeOf(1)) || !CanCopy(request.TypeOf(0)) || !x || !indices) return std::nullopt;
  if (x->rank() > kMostAxes || indices->rank() > kMostAxes || x->rank() == 0) return std::nullopt;
  if (request.Is("GatherElements")) return OnDevice(request, "gather", RunGatherElements);
  if (request.Is("GatherND") && indices->rank() > 0) return OnDevice(request, "gather", RunGatherND);
  if (request.Is("ScatterElements")) return ChooseScatter(request, false);
  if (request.Is("ScatterND") && indices->rank() > 0 && indices->back() > 0) return ChooseScatter(request, true);
  return std::nullopt;
}

std::optional<ChosenKernel> ChooseFill(const OperatorRequest& request) {
  const DType type = request.TypeOf(0);
  if (request.Is("OneHot") && IsIndex(type) && IsIndex(request.TypeOf(1)) && CanCopy(request.TypeOf(2)))
    return OnDevice(request, "one hot", RunOneHot, InputBit(1));
  if (request.Is("Trilu") && CanCopy(type)) return OnDevice(request, "triangle", RunTrilu, InputBit(1));
  if (request.Is("Range") && TypeName(type) && type != DType::kBool)
    return OnDevice(request, "range", RunRange, InputBit(0) | InputBit(1) | InputBit(2));
  if (request.Is("ConstantOfShape") && CanCopy(request.ResultType()))
    return OnDevice(request, "fill", RunConstantOfShape, InputBit(0));
  return std::nullopt;
}

}  // namespace

std::optional<ChosenKernel> ChooseIndex(const OperatorRequest& request) {
  const DType type = request.TypeOf(0);
  const std::optional<Shape> x = request.ShapeOf(0);
  for (bool product : {false, true})
    if (request.Is(product ? "CumProd" : "CumSum") && CanCumulate(type))
      return OnDevice(
          request, "cumulate",
          [=](const Device& device, OpContext& context) { RunCumulate(device, context, {.is_product = product}); },
          InputBit(1));
  for (bool largest : {false, true})
    if (request.Is(largest ? "ArgMax" : "ArgMin") && CanOrder(type))
      return OnDevice(request, "best", [=](const Device& device, OpContext& context) {
        RunBest(device, context, {.is_largest = largest});
      });
  if (request.Is("TopK") && CanOrder(type)) return OnDevice(request, "top", RunTopK, InputBit(1));
  if (request.Is("NonZero") && TypeName(type) && x && x->rank() <= kMostAxes)
    return OnDevice(request, "nonzero", RunNonZero);
  if (request.Is("Tile") && CanCopy(type) && x && x->rank() <= kMostAxes / 2)
    return OnDevice(request, "walk", RunTile, InputBit(1));
  for (bool to_space : {false, true})
    if (request.Is(to_space ? "DepthToSpace" : "SpaceToDepth") && CanCopy(type))
      return OnDevice(request, "walk",
                      [=](const Device& device, OpContext& context) { RunBlocks(device, context, to_space); });
  if (std::optional<ChosenKernel> chosen = ChooseByIndex(request)) return chosen;
  return ChooseFill(request);
}

}  // namespace ferry::cuda
