#include <algorithm>

#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

enum class PadMode : uint8_t { kConstant, kReflect, kEdge, kWrap };

PadMode ReadMode(const Node& node) {
  std::string mode = node.String("mode", "constant");
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "edge") return PadMode::kEdge;
  if (mode == "wrap") return PadMode::kWrap;
  Fail(ErrorCode::kInvalidModel, "mode '", Printable(mode), "' is not one of constant, reflect, edge, wrap");
}

// How one axis is lengthened (or shortened, when negative) at both ends.
struct Ends {
  int64_t before = 0;
  int64_t after = 0;
};

std::vector<Ends> EndsOfAxes(const OpContext& context, size_t rank) {
  std::vector<int64_t> pads = IntegerList(context.Input(1), "pads");
  std::vector<size_t> axes(rank);
  for (size_t axis = 0; axis < rank; ++axis) axes[axis] = axis;
  if (const Tensor* given = context.OptionalInput(3)) axes = NormalizeAxes(IntegerList(*given, "axes"), rank);
  Require(pads.size() == 2 * axes.size(), "pads has ", pads.size(), " numbers, two for each of ", axes.size(),
          " axes are needed");
  std::vector<Ends> ends(rank);
  for (size_t i = 0; i < axes.size(); ++i) ends[axes[i]] = {pads[i], pads[axes.size() + i]};
  return ends;
}

int64_t PaddedLength(int64_t length, const Ends& ends, size_t axis) {
  int64_t padded;
  bool overflows =
      __builtin_add_overflow(length, ends.before, &padded) || __builtin_add_overflow(padded, ends.after, &padded);
  Require(!overflows && padded >= 0 && ends.before > INT64_MIN && ends.after > INT64_MIN, "axis ", axis, " of size ",
          length, " cannot be padded by ", ends.before, " and ", ends.after);
  return padded;
}

void PadWithConstant(const OpContext& context, const Tensor& from, const std::vector<Ends>& ends, const Tensor& value,
                     Tensor& out) {
  std::vector<int64_t> from_strides = from.shape().Strides(), to_strides = out.shape().Strides();
  // The box that the data fills: where it begins in the result and in the data, and how large it is.
  std::vector<int64_t> sizes = out.shape().ToVector();
  int64_t from_offset = 0, to_offset = 0;
  for (size_t axis = 0; axis < ends.size(); ++axis) {
    int64_t length = out.dim(axis);
    int64_t first = std::clamp<int64_t>(ends[axis].before, 0, length);
    int64_t skipped = std::min(std::max<int64_t>(0, -ends[axis].before), from.dim(axis));
    int64_t count = std::min(from.dim(axis) - skipped, length - first);
    // Left and right of it along this axis, everything of the later axes.
    sizes[axis] = first;
    FillStrided(context, value, 0, out, to_offset, sizes, to_strides);
    sizes[axis] = length - first - count;
    FillStrided(context, value, 0, out, to_offset + (first + count) * to_strides[axis], sizes, to_strides);
    sizes[axis] = count;
    from_offset += skipped * from_strides[axis];
    to_offset += first * to_strides[axis];
  }
  CopyStrided(context, from, from_offset, out, to_offset, BoxAxes(sizes, from_strides, to_strides));
}

int64_t Wrapped(int64_t index, int64_t period) { return (index % period + period) % period; }

// For each place along an axis of the result the place of the data that it repeats.
std::vector<int64_t> RepeatedPlaces(PadMode mode, int64_t length, const Ends& ends, int64_t padded, size_t axis) {
  int64_t first = std::max<int64_t>(0, -ends.before), count = length - first - std::max<int64_t>(0, -ends.after);
  Require(padded == 0 || count > 0, "axis ", axis, " of size ", length, " has nothing to repeat for pads ", ends.before,
          " and ", ends.after);
  std::vector<int64_t> places(static_cast<size_t>(padded));
  for (int64_t i = 0; i < padded; ++i) {
    int64_t place = i - ends.before - first;
    if (mode == PadMode::kEdge) {
      place = std::clamp<int64_t>(place, 0, count - 1);
    } else if (mode == PadMode::kWrap) {
      place = Wrapped(place, count);
    } else {
      int64_t period = std::max<int64_t>(1, 2 * (count - 1));
      place = Wrapped(place, period);
      if (place >= count) place = period - place;
    }
    places[static_cast<size_t>(i)] = first + place;
  }
  return places;
}

// Places of the last axis that follow one another, copied as one.
struct Run {
  int64_t to, from, count;
};

std::vector<Run> RunsOf(const std::vector<int64_t>& places) {
  std::vector<Run> runs;
  for (size_t i = 0; i < places.size(); ++i) {
    if (!runs.empty() && places[i] == runs.back().from + runs.back().count)
      ++runs.back().count;
    else
      runs.push_back({static_cast<int64_t>(i), places[i], 1});
  }
  return runs;
}

void PadWithRepeats(const OpContext& context, const Tensor& from, const std::vector<Ends>& ends, PadMode mode,
                    Tensor& out) {
  // Trailing axes that stay as they are make up the unit that is moved.
  size_t rank = ends.size();
  while (rank > 0 && ends[rank - 1].before == 0 && ends[rank - 1].after == 0) --rank;
  if (rank == 0) return CopyStrided(context, from, 0, out, 0, {{out.size(), 1, 1}});
  int64_t unit = from.shape().CountBetween(rank, from.rank());
  std::vector<std::vector<int64_t>> places;
  for (size_t axis = 0; axis < rank; ++axis)
    places.push_back(RepeatedPlaces(mode, from.dim(axis), ends[axis], out.dim(axis), axis));
  if (out.size() == 0) return;
  std::vector<int64_t> strides = from.shape().Strides();
  std::vector<Run> runs = RunsOf(places.back());
  int64_t row = out.dim(rank - 1) * unit;
  context.ParallelFor(out.size() / row, std::max<int64_t>(1, (1 << 14) / row), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t rest = r, offset = 0;
      for (size_t axis = rank - 1; axis-- > 0;) {
        offset += places[axis][static_cast<size_t>(rest % out.dim(axis))] * strides[axis];
        rest /= out.dim(axis);
      }
      for (const Run& run : runs)
        CopyRun(from, offset + run.from * unit, out, r * row + run.to * unit, run.count * unit);
    }
  });
}

void ComputePad(OpContext& context) {
  const Tensor& data = context.Input(0);
  PadMode mode = ReadMode(context.node());
  std::vector<Ends> ends = EndsOfAxes(context, data.rank());
  Shape shape = data.shape();
  for (size_t axis = 0; axis < shape.rank(); ++axis) shape[axis] = PaddedLength(data.dim(axis), ends[axis], axis);
  Tensor value = MovableZero(data.dtype());
  if (const Tensor* given = context.OptionalInput(2)) {
    Require(given->size() == 1 && given->dtype() == data.dtype(), "constant_value must be one ", data.dtype(), ", is ",
            given->dtype(), " of shape ", given->shape());
    value = Movable(*given);
  }
  Tensor from = Movable(data);
  WriteMoved(context, 0, data.dtype(), shape, [&](Tensor& out) {
    if (mode == PadMode::kConstant)
      PadWithConstant(context, from, ends, value, out);
    else
      PadWithRepeats(context, from, ends, mode, out);
  });
}

void InferPad(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  DType dtype = context.InputDType(0);
  if (!data) return context.SetOutput(0, dtype);
  std::optional<SymbolicShape> pads = ElementsOf(context, 1);
  std::vector<size_t> axes(data->size());
  for (size_t axis = 0; axis < axes.size(); ++axis) axes[axis] = axis;
  std::optional<std::vector<int64_t>> given = context.Has(3) ? context.InputInts(3) : std::nullopt;
  if (context.Has(3) && !given) return context.SetOutput(0, dtype, UnknownShape(data->size()));
  if (given) axes = NormalizeAxes(*given, data->size());
  SymbolicShape shape = *data;
  if (pads)
    Require(pads->size() == 2 * axes.size(), "pads has ", pads->size(), " numbers, two for each of ", axes.size(),
            " axes are needed");
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& dim = shape[axes[i]];
    dim = pads ? dim + ((*pads)[i] + (*pads)[axes.size() + i]) : Dim();
    Require(!dim.known() || *dim.value >= 0, "axis ", axes[i], " is padded to a negative size");
  }
  context.SetOutput(0, dtype, std::move(shape));
}

}  // namespace

FERRY_OPERATOR(Pad, {.compute = ComputePad, .infer = InferPad});

}  // namespace ferry
