#include <algorithm>

#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

// What is taken along one axis: `count` elements from `begin`, `step` apart.
struct Taken {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t step = 1;
};

Taken TakenAlong(int64_t size, int64_t start, int64_t end, int64_t step) {
  auto placed = [size](int64_t index) { return index < 0 ? (index < -size ? -1 : index + size) : index; };
  Require(step != 0, "a step of a slice cannot be 0");
  if (size == 0) return {0, 0, 1};
  if (step > 0) {
    int64_t from = std::clamp<int64_t>(placed(start), 0, size), to = std::clamp<int64_t>(placed(end), 0, size);
    return {from, to > from ? (to - from - 1) / step + 1 : 0, step};
  }
  int64_t from = start < -size ? 0 : std::min(placed(start), size - 1);
  int64_t to = end < -size ? -1 : std::min(placed(end), size - 1);
  // The smallest number has no opposite; no axis is long enough for it to matter.
  int64_t pace = step == INT64_MIN ? INT64_MAX : -step;
  return {from, from > to ? (from - to - 1) / pace + 1 : 0, -pace};
}

struct Request {
  std::vector<int64_t> starts, ends, axes, steps;
};

void CheckRequest(const Request& request) {
  size_t count = request.starts.size();
  Require(request.ends.size() == count && request.axes.size() == count && request.steps.size() == count,
          "starts, ends, axes and steps have different lengths: ", count, ", ", request.ends.size(), ", ",
          request.axes.size(), ", ", request.steps.size());
}

std::vector<int64_t> FirstAxes(size_t count) {
  std::vector<int64_t> axes(count);
  for (size_t i = 0; i < count; ++i) axes[i] = static_cast<int64_t>(i);
  return axes;
}

void ComputeSlice(OpContext& context) {
  const Tensor& data = context.Input(0);
  Request request{IntegerList(context.Input(1), "starts"), IntegerList(context.Input(2), "ends"), {}, {}};
  size_t count = request.starts.size();
  request.axes = context.Has(3) ? IntegerList(context.Input(3), "axes") : FirstAxes(count);
  request.steps = context.Has(4) ? IntegerList(context.Input(4), "steps") : std::vector<int64_t>(count, 1);
  CheckRequest(request);
  std::vector<size_t> axes = NormalizeAxes(request.axes, data.rank());
  std::vector<Taken> taken;
  for (int64_t dim : data.shape()) taken.push_back({0, dim, 1});
  for (size_t i = 0; i < axes.size(); ++i)
    taken[axes[i]] = TakenAlong(data.dim(axes[i]), request.starts[i], request.ends[i], request.steps[i]);

  Shape shape = data.shape();
  std::vector<int64_t> from_strides = data.shape().Strides();
  int64_t offset = 0;
  for (size_t axis = 0; axis < data.rank(); ++axis) {
    shape[axis] = taken[axis].count;
    offset += taken[axis].begin * from_strides[axis];
    // One element needs no step, and a step beyond the axis is never taken.
    from_strides[axis] *= taken[axis].count > 1 ? taken[axis].step : 0;
  }
  Tensor from = Movable(data);
  WriteMoved(context, 0, data.dtype(), shape, [&](Tensor& out) {
    CopyStrided(context, from, offset, out, 0, BoxAxes(shape.dims(), from_strides, shape.Strides()));
  });
}

// The length along an axis whose size or whose bounds have no number: known only where nothing is cut off.
Dim LengthAlong(const Dim& size, const Dim& start, const Dim& end, const Dim& step) {
  constexpr int64_t kBeyondAnyAxis = INT32_MAX;
  if (step.known() && *step.value == 0) Fail(ErrorCode::kInvalidModel, "a step of a slice cannot be 0");
  if (size.known() && start.known() && end.known() && step.known())
    return Dim(TakenAlong(*size.value, *start.value, *end.value, *step.value).count);
  if (SameDim(start, end)) return Dim(0);
  if (step.known() && *step.value == 1 && start.known() && *start.value == 0) {
    if (SameDim(size, end) || (end.known() && *end.value >= kBeyondAnyAxis)) return size;
  }
  bool backwards = step.known() && *step.value == -1 && end.known() && *end.value <= -kBeyondAnyAxis;
  if (backwards && start.known() && (*start.value == -1 || *start.value >= kBeyondAnyAxis)) return size;
  return {};
}

void InferSlice(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  DType dtype = context.InputDType(0);
  if (!data) return context.SetOutput(0, dtype);
  std::optional<SymbolicShape> starts = ElementsOf(context, 1), ends = ElementsOf(context, 2);
  std::optional<size_t> count = starts ? std::optional(starts->size())
                                : ends ? std::optional(ends->size())
                                       : ListLength(context, 1);
  std::optional<std::vector<int64_t>> axes, steps;
  if (context.Has(3)) axes = context.InputInts(3);
  if (!count && axes) count = axes->size();
  if (!context.Has(3) && count) axes = FirstAxes(*count);
  if (!axes || !count) return context.SetOutput(0, dtype, UnknownShape(data->size()));
  if (context.Has(4))
    steps = context.InputInts(4);
  else
    steps = std::vector<int64_t>(*count, 1);
  bool agree = axes->size() == *count && (!starts || starts->size() == *count) && (!ends || ends->size() == *count) &&
               (!steps || steps->size() == *count);
  Require(agree, "starts, ends, axes and steps have different lengths");
  SymbolicShape shape = *data;
  std::vector<size_t> placed = NormalizeAxes(*axes, data->size());
  for (size_t i = 0; i < placed.size(); ++i)
    shape[placed[i]] = LengthAlong((*data)[placed[i]], starts ? (*starts)[i] : Dim(), ends ? (*ends)[i] : Dim(),
                                   steps ? Dim((*steps)[i]) : Dim());
  context.SetOutput(0, dtype, std::move(shape));

  std::optional<SymbolicShape> elements = ElementsOf(context, 0);
  bool all_known = starts && ends && steps && *count == 1 && (*starts)[0].known() && (*ends)[0].known();
  if (!elements || data->size() != 1 || !all_known) return;
  Taken taken = TakenAlong(static_cast<int64_t>(elements->size()), *(*starts)[0].value, *(*ends)[0].value, (*steps)[0]);
  SymbolicShape kept;
  for (int64_t k = 0; k < taken.count; ++k)
    kept.push_back((*elements)[static_cast<size_t>(taken.begin + k * taken.step)]);
  context.SetOutputElements(0, std::move(kept));
}

}  // namespace

FERRY_OPERATOR(Slice, {.compute = ComputeSlice, .infer = InferSlice, .moves_elements = true});

}  // namespace ferry
