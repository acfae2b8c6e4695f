#include <cmath>
#include <cstring>
#include <limits>

#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

enum class SampleMode : uint8_t { kNearest, kLinear, kCubic };
enum class Padding : uint8_t { kZeros, kBorder, kReflection };

constexpr int64_t kNowhere = -1;  // the index of a tap that reads 0

struct SampleAttributes {
  SampleMode mode;
  Padding padding;
  bool align_corners;

  explicit SampleAttributes(const Node& node) : align_corners(node.Int("align_corners", 0) != 0) {
    std::string mode_name = node.String("mode", "linear"), padding_name = node.String("padding_mode", "zeros");
    Require(mode_name == "nearest" || mode_name == "linear" || mode_name == "cubic",
            "mode must be linear, nearest or cubic, is '", Printable(mode_name), "'");
    Require(padding_name == "zeros" || padding_name == "border" || padding_name == "reflection",
            "padding_mode must be zeros, border or reflection, is '", Printable(padding_name), "'");
    mode = mode_name == "nearest" ? SampleMode::kNearest
                                  : (mode_name == "linear" ? SampleMode::kLinear : SampleMode::kCubic);
    padding = padding_name == "zeros" ? Padding::kZeros
                                      : (padding_name == "border" ? Padding::kBorder : Padding::kReflection);
  }
  int64_t taps() const { return mode == SampleMode::kNearest ? 1 : (mode == SampleMode::kLinear ? 2 : 4); }
};

template <class G>
struct Tap {
  int64_t index;
  G weight;
};

// Folds a coordinate back and forth between two borders until it lies between them.
template <class G>
G Reflect(G x, G low, G high) {
  G range = high - low;
  if (!(range > 0)) return low;
  bool is_below = x < low;
  if (!is_below && !(x > high)) return x;
  G beyond = is_below ? low - x : x - high;
  G times = std::floor(beyond / range);
  G rest = beyond - times * range;
  bool is_even = std::fmod(times, G{2}) == 0;
  return is_below == is_even ? low + rest : high - rest;
}

template <class G>
struct SampleAxis {
  const SampleAttributes& attributes;
  int64_t size;
  G low, high;  // the borders

  SampleAxis(const SampleAttributes& a, int64_t length)
      : attributes(a),
        size(length),
        low(a.align_corners ? G{0} : G(-0.5)),
        high(static_cast<G>(length) - (a.align_corners ? G{1} : G(0.5))) {}

  // What a normalized coordinate in [-1, 1] reads along this axis.
  void Taps(G normalized, Tap<G>* taps) const {
    G length = static_cast<G>(size);
    G x = attributes.align_corners ? (normalized + 1) / 2 * (length - 1) : ((normalized + 1) * length - 1) / 2;
    if (attributes.mode == SampleMode::kNearest) x = std::nearbyint(x);
    x = Settle(x);
    G base = std::floor(x), t = x - base;
    auto at = static_cast<int64_t>(base);
    switch (attributes.mode) {
      case SampleMode::kNearest: taps[0] = {Index(at), G{1}}; break;
      case SampleMode::kLinear:
        taps[0] = {Index(at), 1 - t};
        taps[1] = {Index(at + 1), t};
        break;
      case SampleMode::kCubic:
        taps[0] = {Index(at - 1), Outer(t + 1)};
        taps[1] = {Index(at), Inner(t)};
        taps[2] = {Index(at + 1), Inner(1 - t)};
        taps[3] = {Index(at + 2), Outer(2 - t)};
        break;
    }
  }

 private:
  static constexpr G kCubic = G(-0.75);
  static G Inner(G x) { return ((kCubic + 2) * x - (kCubic + 3)) * x * x + 1; }
  static G Outer(G x) { return ((kCubic * x - 5 * kCubic) * x + 8 * kCubic) * x - 4 * kCubic; }

  // Brings a coordinate beyond the borders back as the padding mode says; what is not a number lies outside.
  G Settle(G x) const {
    constexpr G kFar = G{1 << 30};
    if (std::isnan(x)) x = -kFar;
    if (x < low || x > high) {
      if (attributes.padding == Padding::kBorder) x = std::clamp(x, G{0}, static_cast<G>(size - 1));
      if (attributes.padding == Padding::kReflection)
        x = Reflect(std::clamp(x, -std::numeric_limits<G>::max() / 4, std::numeric_limits<G>::max() / 4), low, high);
    }
    return std::clamp(x, -kFar, kFar + static_cast<G>(size));
  }

  int64_t Index(int64_t i) const {
    if (i >= 0 && i < size) return i;
    if (attributes.padding == Padding::kZeros) return kNowhere;
    if (attributes.padding == Padding::kReflection) i = static_cast<int64_t>(Reflect(static_cast<G>(i), low, high));
    return std::clamp<int64_t>(i, 0, size - 1);
  }
};

struct SamplePlan {
  SampleAttributes attributes;
  int64_t batch, channels, spatial, points;  // points: sampled places per image
  std::vector<int64_t> sizes;
  Shape output;

  SamplePlan(const Node& node, const Shape& x, const Shape& grid) : attributes(node) {
    Require(x.rank() >= 3 && grid.rank() == x.rank(), "input ", x, " and grid ", grid,
            " must have the same rank, at least 3");
    spatial = static_cast<int64_t>(x.rank()) - 2;
    batch = x[0];
    channels = x[1];
    Require(grid[0] == batch && grid.back() == spatial, "grid ", grid, " does not fit input ", x, ": it needs ", batch,
            " images and ", spatial, " coordinates per place");
    constexpr int64_t kMostAxes = 8;
    Require(spatial <= kMostAxes, "at most ", kMostAxes, " spatial axes are supported");
    sizes = Shape(x.dims().subspan(2)).ToVector();
    output = Shape{batch, channels};
    for (size_t axis = 1; axis + 1 < grid.rank(); ++axis) output.push_back(grid[axis]);
    points = output.CountBetween(2, output.rank());
    for (int64_t size : sizes) Require(size > 0 || output.ElementCount() == 0, "nothing can be sampled from input ", x);
  }

  int64_t corners() const {
    int64_t count = 1;
    for (int64_t i = 0; i < spatial; ++i) count *= attributes.taps();
    return count;
  }
};

// The pixels one place reads, with their weights; offsets into a channel's plane, or kNowhere.
template <class G>
class PlaceReader {
 public:
  explicit PlaceReader(const SamplePlan& plan) : plan_(plan), taps_(static_cast<size_t>(plan.spatial) * 4) {
    for (int64_t size : plan.sizes) axes_.emplace_back(plan.attributes, size);
  }

  void Read(const G* coordinates, std::vector<Tap<G>>& corners) {
    auto rank = static_cast<size_t>(plan_.spatial);
    // A place lists the innermost coordinate first.
    for (size_t a = 0; a < rank; ++a) axes_[a].Taps(coordinates[rank - 1 - a], taps_.data() + a * 4);
    int64_t per_axis = plan_.attributes.taps();
    for (size_t corner = 0; corner < corners.size(); ++corner) {
      auto rest = static_cast<int64_t>(corner);
      int64_t stride = 1;
      Tap<G> made{0, G{1}};
      for (size_t a = rank; a-- > 0; rest /= per_axis) {
        const Tap<G>& tap = taps_[a * 4 + static_cast<size_t>(rest % per_axis)];
        if (tap.index == kNowhere) made.index = kNowhere;
        if (made.index != kNowhere) made.index += tap.index * stride;
        made.weight *= tap.weight;
        stride *= plan_.sizes[a];
      }
      corners[corner] = made;
    }
  }

 private:
  const SamplePlan& plan_;
  std::vector<SampleAxis<G>> axes_;
  std::vector<Tap<G>> taps_;
};

// Calls visit(point, corners) for every place of every image; corners.index are offsets into a plane.
template <class G, class Visit>
void ForEachPlace(const OpContext& context, const SamplePlan& plan, const G* grid, const Visit& visit) {
  int64_t work = std::max<int64_t>(plan.channels * plan.corners(), 1);
  context.ParallelFor(plan.batch * plan.points, 1 + 16384 / work, [&](int64_t begin, int64_t end) {
    PlaceReader<G> reader(plan);
    std::vector<Tap<G>> corners(static_cast<size_t>(plan.corners()));
    for (int64_t i = begin; i < end; ++i) {
      reader.Read(grid + i * plan.spatial, corners);
      visit(i / plan.points, i % plan.points, corners);
    }
  });
}

template <class T, class G>
void SampleReals(const OpContext& context, const SamplePlan& plan, const Tensor& x, const G* grid, Tensor& y) {
  int64_t plane = Shape(plan.sizes).ElementCount();
  const T* from = x.Data<T>();
  T* to = y.MutableData<T>();
  ForEachPlace<G>(context, plan, grid, [&](int64_t image, int64_t point, const std::vector<Tap<G>>& corners) {
    for (int64_t channel = image * plan.channels; channel < (image + 1) * plan.channels; ++channel) {
      const T* source = from + channel * plane;
      T sum{0};
      for (const Tap<G>& corner : corners)
        if (corner.index != kNowhere) sum += static_cast<T>(corner.weight) * source[corner.index];
      to[channel * plan.points + point] = sum;
    }
  });
}

// Nearest: whole elements are copied, whatever they are.
template <class G, class Copy>
void CopyNearest(const OpContext& context, const SamplePlan& plan, const G* grid, const Copy& copy) {
  int64_t plane = Shape(plan.sizes).ElementCount();
  ForEachPlace<G>(context, plan, grid, [&](int64_t image, int64_t point, const std::vector<Tap<G>>& corners) {
    for (int64_t channel = image * plan.channels; channel < (image + 1) * plan.channels; ++channel)
      copy(channel * plan.points + point, corners[0].index == kNowhere ? kNowhere : channel * plane + corners[0].index);
  });
}

template <class G>
void SampleNearest(const OpContext& context, const SamplePlan& plan, const Tensor& x, const G* grid, Tensor& y) {
  if (x.dtype() == DType::kString) {
    const std::string* from = x.Data<std::string>();
    std::string* to = y.MutableData<std::string>();
    return CopyNearest<G>(context, plan, grid, [&](int64_t i, int64_t source) {
      to[i] = source == kNowhere ? std::string() : from[source];
    });
  }
  auto element = static_cast<size_t>(BitWidth(x.dtype())) / 8;
  Require(element > 0, "element type ", x.dtype(), " is not one GridSample is defined for");
  CopyNearest<G>(context, plan, grid, [&](int64_t i, int64_t source) {
    std::byte* to = y.mutable_raw() + static_cast<size_t>(i) * element;
    if (source == kNowhere)
      std::memset(to, 0, element);
    else
      std::memcpy(to, x.raw() + static_cast<size_t>(source) * element, element);
  });
}

// Integers and bools are computed in double and cut to whole numbers.
template <class G>
void SampleIntegers(const OpContext& context, const SamplePlan& plan, const Tensor& x, const G* grid, Tensor& y) {
  using Types = TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool>;
  Dispatch(Types{}, x.dtype(), [&](auto tag) {
    using Integer = typename decltype(tag)::type;
    Tensor wide(DType::kDouble, x.shape()), result(DType::kDouble, y.shape());
    std::copy_n(x.Data<Integer>(), x.size(), wide.MutableData<double>());
    SampleReals<double, G>(context, plan, wide, grid, result);
    const double* from = result.Data<double>();
    Integer* to = y.MutableData<Integer>();
    constexpr auto kLow = static_cast<double>(std::numeric_limits<Integer>::min());
    constexpr auto kHigh = static_cast<double>(std::numeric_limits<Integer>::max());
    for (int64_t i = 0; i < y.size(); ++i) {
      if constexpr (std::is_same_v<Integer, bool>)
        to[i] = from[i] != 0;
      else
        to[i] = from[i] <= kLow
                    ? std::numeric_limits<Integer>::min()
                    : (from[i] >= kHigh ? std::numeric_limits<Integer>::max() : static_cast<Integer>(from[i]));
    }
  });
}

// Real and imaginary parts are sampled by themselves.
template <class Real, class G>
void SampleComplex(const OpContext& context, const SamplePlan& plan, const Tensor& x, const G* grid, Tensor& y) {
  const std::complex<Real>* from = x.Data<std::complex<Real>>();
  std::complex<Real>* to = y.MutableData<std::complex<Real>>();
  Tensor part(kDTypeOf<Real>, x.shape()), result(kDTypeOf<Real>, y.shape());
  Real* parts = part.MutableData<Real>();
  const Real* results = result.Data<Real>();
  for (int64_t i = 0; i < x.size(); ++i) parts[i] = from[i].real();
  SampleReals<Real, G>(context, plan, part, grid, result);
  for (int64_t i = 0; i < y.size(); ++i) to[i] = results[i];
  for (int64_t i = 0; i < x.size(); ++i) parts[i] = from[i].imag();
  SampleReals<Real, G>(context, plan, part, grid, result);
  for (int64_t i = 0; i < y.size(); ++i) to[i].imag(results[i]);
}

template <class G>
void Sample(const OpContext& context, const SamplePlan& plan, const Tensor& x, const G* grid, Tensor& y) {
  if (plan.attributes.mode == SampleMode::kNearest) return SampleNearest(context, plan, x, grid, y);
  if (x.dtype() == DType::kComplex64) return SampleComplex<float>(context, plan, x, grid, y);
  if (x.dtype() == DType::kComplex128) return SampleComplex<double>(context, plan, x, grid, y);
  if (x.dtype() == DType::kDouble) return SampleReals<double>(context, plan, x, grid, y);
  Require(x.dtype() != DType::kString, "mode must be nearest for strings");
  if (!IsFloating(x.dtype())) return SampleIntegers(context, plan, x, grid, y);
  Tensor wide = WidenToFloat(x);
  Tensor result = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, y.shape()) : y;
  SampleReals<float>(context, plan, wide, grid, result);
  NarrowInto(result, y);
}

void ComputeGridSample(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& grid = context.Input(1);
  SamplePlan plan(context.node(), x.shape(), grid.shape());
  Tensor& y = context.Output(0, x.dtype(), plan.output);
  if (y.size() == 0) return;
  Tensor wide_grid = WidenToFloat(grid);
  Dispatch(FloatTypes{}, wide_grid.dtype(),
           [&](auto tag) { Sample(context, plan, x, wide_grid.Data<typename decltype(tag)::type>(), y); });
}

void InferGridSample(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* grid = context.InputShape(1);
  if (!x && !grid) return context.SetOutput(0, context.InputDType(0));
  size_t rank = x ? x->size() : grid->size();
  Require(rank >= 3, "needs at least one spatial axis, the shape is ", x ? *x : *grid);
  if (x && grid) Require(grid->size() == rank, "input ", *x, " and grid ", *grid, " must have the same rank");
  SymbolicShape out(rank);
  out[0] = x && !(*x)[0].unknown() ? (*x)[0] : (grid ? (*grid)[0] : Dim());
  if (x) out[1] = (*x)[1];
  for (size_t axis = 2; axis < rank && grid; ++axis) out[axis] = (*grid)[axis - 1];
  context.SetOutput(0, context.InputDType(0), std::move(out));
}

}  // namespace

FERRY_OPERATOR(GridSample, {.compute = ComputeGridSample, .infer = InferGridSample});

}  // namespace ferry
