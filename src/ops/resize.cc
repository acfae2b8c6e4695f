#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/gemm.h"
#include "ops/operator.h"
#include "ops/support/cast_tensor.h"
#include "ops/support/dispatch.h"
#include "ops/support/resample.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// An input that older exporters leave there but empty counts as omitted.
const Tensor* FilledInput(const OpContext& context, size_t i) {
  const Tensor* tensor = context.OptionalInput(i);
  return tensor && tensor->size() > 0 ? tensor : nullptr;
}

std::vector<size_t> ResizedAxes(const Node& node, size_t rank) {
  std::vector<int64_t> axes = node.Ints("axes");
  if (!node.Has("axes"))
    for (size_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<int64_t>(axis));
  return NormalizeAxes(axes, rank);
}

int64_t WholeSize(double size) {
  Require(size >= 0 && size < 0x1p46, "an output of size ", size, " is out of range");
  return static_cast<int64_t>(size);
}

void PlanFromScale(const ResizeAttributes& attributes, float scale, ResizeAxis& axis) {
  Require(scale > 0 && std::isfinite(scale), "scales must be positive, one is ", static_cast<double>(scale));
  axis.scale = scale;
  axis.width = axis.scale * static_cast<double>(axis.input);
  bool crops = attributes.coordinates == CoordinateMode::kCrop;
  if (scale == 1.0f && !crops) {
    axis.output = axis.input;
    return;
  }
  // In float, as scales are: 0.7 of 10 is 7.
  float size = scale * static_cast<float>(axis.input);
  if (crops) size *= static_cast<float>(axis.roi_end - axis.roi_start);
  axis.output = WholeSize(std::floor(static_cast<double>(size)));
}

void PlanFromSizes(const ResizeAttributes& attributes, const std::vector<int64_t>& sizes,
                   const std::vector<size_t>& axes, std::vector<ResizeAxis>& plan) {
  double scale = attributes.policy == AspectPolicy::kNotLarger ? std::numeric_limits<double>::infinity() : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis& axis = plan[axes[i]];
    Require(sizes[i] >= 0 && (axis.input > 0 || sizes[i] == 0), "axis ", axes[i], " of size ", axis.input,
            " cannot be resized to ", sizes[i]);
    axis.output = sizes[i];
    axis.width = static_cast<double>(sizes[i]);
    axis.scale = axis.input > 0 ? axis.width / static_cast<double>(axis.input) : 1;
    scale = attributes.policy == AspectPolicy::kNotLarger ? std::min(scale, axis.scale) : std::max(scale, axis.scale);
  }
  if (attributes.policy == AspectPolicy::kStretch) return;
  for (size_t i : axes) {
    plan[i].scale = scale;
    plan[i].width = scale * static_cast<double>(plan[i].input);
    plan[i].output = WholeSize(std::floor(plan[i].width + 0.5));
  }
}

// Element i of the starts and of the ends, which follow them.
void ReadRoi(const Tensor& roi, size_t i, size_t count, ResizeAxis& axis) {
  Tensor values = CastTensor(roi, DType::kDouble);
  axis.roi_start = values.Data<double>()[i];
  axis.roi_end = values.Data<double>()[i + count];
}

}  // namespace

std::vector<ResizeAxis> PlanResize(const Node& node, const ResizeAttributes& attributes, const Shape& x,
                                   const Tensor* roi, const Tensor* scales, const Tensor* sizes) {
  std::vector<size_t> axes = ResizedAxes(node, x.rank());
  std::vector<ResizeAxis> plan;
  for (int64_t dim : x) plan.push_back({.input = dim, .output = dim, .width = static_cast<double>(dim)});
  if (axes.empty()) return plan;
  Require((scales != nullptr) != (sizes != nullptr), "exactly one of scales and sizes must be given");
  auto count = static_cast<int64_t>(axes.size());
  if (attributes.coordinates == CoordinateMode::kCrop) {
    Require(roi && roi->size() == 2 * count, "tf_crop_and_resize needs a roi of ", 2 * count, " values");
    for (size_t i = 0; i < axes.size(); ++i) ReadRoi(*roi, i, axes.size(), plan[axes[i]]);
  }
  if (sizes) {
    Require(sizes->size() == count, "sizes has ", sizes->size(), " values for ", count, " axes");
    PlanFromSizes(attributes, ToInt64Vector(*sizes), axes, plan);
  } else {
    Require(scales->size() == count, "scales has ", scales->size(), " values for ", count, " axes");
    for (int64_t i = 0; i < count; ++i)
      PlanFromScale(attributes, scales->Data<float>()[i], plan[axes[static_cast<size_t>(i)]]);
  }
  for (const ResizeAxis& axis : plan)
    Require(axis.output == 0 || axis.input > 0, "an axis of size 0 cannot be resized to ", axis.output);
  return plan;
}

namespace {

std::vector<ResizeAxis> PlanResize(const OpContext& context, const ResizeAttributes& attributes, const Shape& x) {
  return PlanResize(context.node(), attributes, x, FilledInput(context, 1), FilledInput(context, 2),
                    FilledInput(context, 3));
}

// One output row of `inner` elements: a weighted sum of rows of the block. A value of no weight has no say, not even
// when it is infinite.
template <class T>
void ResampleRow(const AxisTaps& taps, size_t out, int64_t inner, const T* block, T* row) {
  size_t first = out * static_cast<size_t>(taps.count), last = first + static_cast<size_t>(taps.count);
  std::fill_n(row, inner, T{0});
  for (size_t tap = first; tap < last; ++tap)
    if (taps.weight[tap] != 0) AddScaled(inner, static_cast<T>(taps.weight[tap]), block + taps.input[tap] * inner, row);
}

// The last axis, where rows are single elements.
template <class T>
void ResampleLines(const OpContext& context, const AxisTaps& taps, int64_t outer, int64_t input, int64_t output,
                   T extrapolation, const T* from, T* to) {
  std::vector<T> weights(taps.weight.begin(), taps.weight.end());
  context.ParallelFor(outer, 1 + 32768 / std::max<int64_t>(output * taps.count, 1), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const T* block = from + line * input;
      T* row = to + line * output;
      const T* weight = weights.data();
      const int64_t* place = taps.input.data();
      for (int64_t out = 0; out < output; ++out, weight += taps.count, place += taps.count) {
        T sum{0};
        for (int64_t tap = 0; tap < taps.count; ++tap) sum += weight[tap] == 0 ? T{0} : weight[tap] * block[place[tap]];
        row[out] = sum;
      }
      if (taps.outside.empty()) continue;
      for (int64_t out = 0; out < output; ++out)
        if (taps.outside[static_cast<size_t>(out)]) row[out] = extrapolation;
    }
  });
}

// [outer, input, inner] to [outer, output, inner].
template <class T>
void ResampleAxis(const OpContext& context, const AxisTaps& taps, int64_t outer, int64_t input, int64_t output,
                  int64_t inner, T extrapolation, const T* from, T* to) {
  if (inner == 1) return ResampleLines(context, taps, outer, input, output, extrapolation, from, to);
  int64_t work = std::max<int64_t>(inner * taps.count, 1);
  context.ParallelFor(outer * output, 1 + 32768 / work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto out = static_cast<size_t>(i % output);
      if (!taps.outside.empty() && taps.outside[out])
        std::fill_n(to + i * inner, inner, extrapolation);
      else
        ResampleRow(taps, out, inner, from + i / output * input * inner, to + i * inner);
    }
  });
}

// Axes that shrink come first, then the last axis, whose elements are worked on one by one, then those that grow.
std::vector<size_t> CheapestOrder(const std::vector<ResizeAxis>& plan) {
  std::vector<size_t> order;
  for (size_t axis = 0; axis + 1 < plan.size(); ++axis)
    if (plan[axis].output < plan[axis].input) order.push_back(axis);
  if (!plan.empty()) order.push_back(plan.size() - 1);
  for (size_t axis = 0; axis + 1 < plan.size(); ++axis)
    if (plan[axis].output >= plan[axis].input) order.push_back(axis);
  return order;
}

// The last axis is written into `home` where that has the type of the result.
template <class T>
Tensor Interpolate(const OpContext& context, const ResizeAttributes& attributes, const std::vector<ResizeAxis>& plan,
                   Tensor x, const Tensor& home) {
  std::vector<size_t> order = CheapestOrder(plan);
  std::erase_if(order, [&](size_t axis) { return plan[axis].is_identity(attributes); });
  for (size_t axis : order) {
    Shape shape = x.shape();
    shape[axis] = plan[axis].output;
    const bool goes_home = axis == order.back() && home.dtype() == x.dtype() && home.shape() == shape;
    Tensor next = goes_home ? home : Tensor(x.dtype(), shape);
    if (next.size() > 0)
      ResampleAxis<T>(context, MakeTaps(attributes, plan[axis]), shape.CountBetween(0, axis), plan[axis].input,
                      plan[axis].output, shape.CountBetween(axis + 1, shape.rank()),
                      static_cast<T>(attributes.extrapolation), x.Data<T>(), next.template MutableData<T>());
    x = std::move(next);
  }
  return x;
}

template <class Integer>
Integer RoundSaturated(double value) {
  value = std::nearbyint(value);
  if (!(value > static_cast<double>(std::numeric_limits<Integer>::min()))) return std::numeric_limits<Integer>::min();
  if (value >= static_cast<double>(std::numeric_limits<Integer>::max())) return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(value);
}

void InterpolateIntegers(const OpContext& context, const ResizeAttributes& attributes,
                         const std::vector<ResizeAxis>& plan, const Tensor& x, Tensor& y) {
  Dispatch(IntegerTypes{}, x.dtype(), [&](auto tag) {
    using Integer = typename decltype(tag)::type;
    Tensor wide(DType::kDouble, x.shape());
    std::copy_n(x.Data<Integer>(), x.size(), wide.MutableData<double>());
    Tensor result = Interpolate<double>(context, attributes, plan, wide, Tensor());
    const double* from = result.Data<double>();
    Integer* to = y.MutableData<Integer>();
    for (int64_t i = 0; i < y.size(); ++i) to[i] = RoundSaturated<Integer>(from[i]);
  });
}

void InterpolateAny(const OpContext& context, const ResizeAttributes& attributes, std::vector<ResizeAxis> plan,
                    const Tensor& x, Tensor& y) {
  if (IsInteger(x.dtype())) return InterpolateIntegers(context, attributes, plan, x, y);
  Tensor wide = x;
  if (IsComplex(x.dtype())) {
    // A complex number is two reals along one more axis, which stays as it is.
    Shape shape = x.shape();
    shape.push_back(2);
    plan.push_back({.input = 2, .output = 2, .width = 2});
    wide = Tensor(x.dtype() == DType::kComplex64 ? DType::kFloat : DType::kDouble, shape, x.buffer(),
                  x.size() == 0 ? 0 : static_cast<size_t>(x.raw() - x.buffer()->data()));
  } else {
    Require(IsFloating(x.dtype()), "mode must be nearest for elements of type ", x.dtype());
    wide = WidenToFloat(x);
  }
  Tensor result;
  Dispatch(FloatTypes{}, wide.dtype(),
           [&](auto tag) { result = Interpolate<typename decltype(tag)::type>(context, attributes, plan, wide, y); });
  if (result.raw() == y.raw()) return;
  if (IsComplex(x.dtype())) {
    if (y.bytes() > 0) std::memcpy(y.mutable_raw(), result.raw(), y.bytes());
  } else {
    NarrowInto(result, y);
  }
}

// The extrapolation value as one element of the output's type.
void StoreExtrapolation(float value, Tensor& one) {
  if (IsFloating(one.dtype())) {
    if (one.dtype() == DType::kDouble)
      *one.MutableData<double>() = double{value};
    else
      NarrowInto(Tensor::Scalar(value), one);
  } else if (one.dtype() == DType::kBool) {
    *one.MutableData<bool>() = value != 0;
  } else if (IsComplex(one.dtype())) {
    Dispatch(TypeList<std::complex<float>, std::complex<double>>{}, one.dtype(),
             [&](auto tag) { *one.MutableData<typename decltype(tag)::type>() = value; });
  } else if (one.dtype() != DType::kString) {
    Dispatch(IntegerTypes{}, one.dtype(), [&](auto tag) {
      using Integer = typename decltype(tag)::type;
      *one.MutableData<Integer>() = RoundSaturated<Integer>(double{value});
    });
  }
}

// Copies whole elements, whatever they are: copy(to, from, is_outside).
template <class Copy>
void PickNearest(const ResizeAttributes& attributes, const std::vector<ResizeAxis>& plan, const Tensor& x,
                 const Tensor& y, const Copy& copy) {
  std::vector<AxisTaps> taps;
  for (const ResizeAxis& axis : plan) taps.push_back(MakeTaps(attributes, axis));
  std::vector<int64_t> strides = x.shape().Strides(), index(plan.size());
  for (int64_t i = 0; i < y.size(); ++i) {
    int64_t offset = 0;
    bool outside = false;
    for (size_t a = 0; a < plan.size(); ++a) {
      auto at = static_cast<size_t>(index[a]);
      offset += taps[a].input[at] * strides[a];
      outside = outside || (!taps[a].outside.empty() && taps[a].outside[at]);
    }
    copy(i, offset, outside);
    for (size_t a = index.size(); a-- > 0 && ++index[a] == y.dim(a);) index[a] = 0;
  }
}

// Axes that stay as they are at the end, as channels do, make whole runs of elements that are copied together.
template <class Word>
void PickWords(const OpContext& context, const ResizeAttributes& attributes, const std::vector<ResizeAxis>& plan,
               const Tensor& x, Tensor& y) {
  Tensor one(x.dtype(), {});
  StoreExtrapolation(attributes.extrapolation, one);
  Word beyond = *reinterpret_cast<const Word*>(one.raw());
  const auto* from = reinterpret_cast<const Word*>(x.raw());
  auto* to = reinterpret_cast<Word*>(y.mutable_raw());
  size_t axes = plan.size();
  int64_t run = 1;
  while (axes > 0 && plan[axes - 1].is_identity(attributes)) run *= plan[--axes].input;
  if (axes == 0) {
    std::copy_n(from, x.size(), to);
    return;
  }
  std::vector<AxisTaps> taps;
  for (size_t a = 0; a < axes; ++a) taps.push_back(MakeTaps(attributes, plan[a]));
  std::vector<int64_t> strides = x.shape().Strides();
  const AxisTaps& last = taps.back();
  int64_t count = plan[axes - 1].output;
  context.ParallelFor(y.size() / (count * run), 1 + 32768 / (count * run), [&](int64_t first, int64_t end) {
    for (int64_t row = first; row < end; ++row) {
      const Word* line = from;
      bool outside = false;
      int64_t rest = row;
      for (size_t a = axes - 1; a-- > 0; rest /= plan[a].output) {
        auto at = static_cast<size_t>(rest % plan[a].output);
        line += taps[a].input[at] * strides[a];
        outside = outside || (!taps[a].outside.empty() && taps[a].outside[at]);
      }
      Word* out = to + row * count * run;
      for (int64_t i = 0; i < count; ++i, out += run) {
        auto at = static_cast<size_t>(i);
        if (outside || (!last.outside.empty() && last.outside[at]))
          std::fill_n(out, run, beyond);
        else if (run == 1)
          *out = line[last.input[at]];
        else
          std::copy_n(line + last.input[at] * run, run, out);
      }
    }
  });
}

void PickAny(const OpContext& context, const ResizeAttributes& attributes, const std::vector<ResizeAxis>& plan,
             const Tensor& x, Tensor& y) {
  if (x.dtype() == DType::kString) {
    const std::string* from = x.Data<std::string>();
    std::string* to = y.MutableData<std::string>();
    return PickNearest(attributes, plan, x, y, [&](int64_t i, int64_t offset, bool outside) {
      to[i] = outside ? std::string() : from[offset];
    });
  }
  switch (BitWidth(x.dtype())) {
    case 8: return PickWords<uint8_t>(context, attributes, plan, x, y);
    case 16: return PickWords<uint16_t>(context, attributes, plan, x, y);
    case 32: return PickWords<uint32_t>(context, attributes, plan, x, y);
    case 64: return PickWords<uint64_t>(context, attributes, plan, x, y);
    case 128: return PickWords<std::complex<double>>(context, attributes, plan, x, y);
    default: Fail(ErrorCode::kUnsupported, "element type ", x.dtype(), " is not one Resize is defined for");
  }
}

void ComputeResize(OpContext& context) {
  const Tensor& x = context.Input(0);
  ResizeAttributes attributes(context.node());
  std::vector<ResizeAxis> plan = PlanResize(context, attributes, x.shape());
  Shape shape;
  for (const ResizeAxis& axis : plan) shape.push_back(axis.output);
  Tensor& y = context.Output(0, x.dtype(), shape);
  if (y.size() == 0) return;
  if (attributes.mode == ResizeMode::kNearest)
    PickAny(context, attributes, plan, x, y);
  else
    InterpolateAny(context, attributes, std::move(plan), x, y);
}

// The elements of `sizes` when the policy does not change them.
void InferFromSizes(InferContext& context, const ResizeAttributes& attributes, const std::vector<size_t>& axes,
                    SymbolicShape& out) {
  const SymbolicShape* sizes = context.InputElements(3);
  std::optional<std::vector<int64_t>> whole = context.InputInts(3);
  bool has_all = sizes ? sizes->size() == axes.size() : whole && whole->size() == axes.size();
  if (attributes.policy == AspectPolicy::kStretch && has_all) {
    for (size_t i = 0; i < axes.size(); ++i) out[axes[i]] = sizes ? (*sizes)[i] : Dim((*whole)[i]);
    return;
  }
  std::vector<ResizeAxis> plan(out.size());
  bool all_known = whole && whole->size() == axes.size();
  for (size_t axis : axes) {
    all_known = all_known && out[axis].known();
    plan[axis].input = out[axis].known() ? *out[axis].value : 1;
  }
  if (all_known) PlanFromSizes(attributes, *whole, axes, plan);
  for (size_t axis : axes) out[axis] = all_known ? Dim(plan[axis].output) : Dim();
}

void InferFromScales(InferContext& context, const ResizeAttributes& attributes, const std::vector<size_t>& axes,
                     SymbolicShape& out) {
  const Tensor* scales = context.InputConstant(2);
  const Tensor* roi = context.InputConstant(1);
  auto count = static_cast<int64_t>(axes.size());
  bool crops = attributes.coordinates == CoordinateMode::kCrop;
  bool known = scales && scales->dtype() == DType::kFloat && scales->size() == count;
  if (crops) known = known && roi && IsFloating(roi->dtype()) && roi->size() == 2 * count;
  for (int64_t i = 0; i < count; ++i) {
    Dim& dim = out[axes[static_cast<size_t>(i)]];
    if (!known || !dim.known()) {
      if (!known || crops || scales->Data<float>()[i] != 1.0f) dim = Dim();
      continue;
    }
    ResizeAxis axis{.input = *dim.value};
    if (crops) ReadRoi(*roi, static_cast<size_t>(i), axes.size(), axis);
    PlanFromScale(attributes, scales->Data<float>()[i], axis);
    dim = Dim(axis.output);
  }
}

void InferResize(InferContext& context) {
  DType type = context.InputDType(0);
  ResizeAttributes attributes(context.node());
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* size_shape = context.InputShape(3);
  bool has_sizes = context.Has(3) && !(size_shape && size_shape->size() == 1 && SameDim((*size_shape)[0], Dim(0)));
  if (!x) {
    // Sizes for all axes say everything by themselves.
    const SymbolicShape* sizes = context.InputElements(3);
    if (has_sizes && sizes && !context.node().Has("axes") && attributes.policy == AspectPolicy::kStretch)
      return context.SetOutput(0, type, *sizes);
    return context.SetOutput(0, type);
  }
  std::vector<size_t> axes = ResizedAxes(context.node(), x->size());
  SymbolicShape out = *x;
  if (has_sizes)
    InferFromSizes(context, attributes, axes, out);
  else
    InferFromScales(context, attributes, axes, out);
  context.SetOutput(0, type, std::move(out));
}

}  // namespace

FERRY_OPERATOR(Resize, {.compute = ComputeResize, .infer = InferResize});

}  // namespace ferry
