#include "ops/support/resample.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace ferry {
namespace {

template <class Enum, size_t N>
Enum ReadChoice(const Node& node, const char* attribute, const char* otherwise,
                const std::pair<const char*, Enum> (&choices)[N]) {
  std::string text = node.String(attribute, otherwise);
  for (const auto& [name, value] : choices)
    if (text == name) return value;
  Fail(ErrorCode::kInvalidModel, attribute, " has the unknown value '", Printable(text), "'");
}

double SourceCoordinate(CoordinateMode mode, const ResizeAxis& axis, int64_t out) {
  auto x = static_cast<double>(out);
  auto last = static_cast<double>(axis.input - 1);
  switch (mode) {
    case CoordinateMode::kHalfPixel: return (x + 0.5) / axis.scale - 0.5;
    case CoordinateMode::kPytorchHalfPixel: return axis.output > 1 ? (x + 0.5) / axis.scale - 0.5 : 0.0;
    case CoordinateMode::kAsymmetric: return x / axis.scale;
    case CoordinateMode::kTfHalfPixelForNn: return (x + 0.5) / axis.scale;
    case CoordinateMode::kHalfPixelSymmetric: {
      double adjustment = static_cast<double>(axis.output) / axis.width;
      double offset = static_cast<double>(axis.input) / 2 * (1 - adjustment);
      return offset + (x + 0.5) / axis.scale - 0.5;
    }
    case CoordinateMode::kAlignCorners:
      // The standard's cases divide by the size before rounding.
      return axis.width == 1 ? 0.0 : x * last / (axis.width - 1);
    case CoordinateMode::kCrop:
      if (axis.output <= 1) return 0.5 * (axis.roi_start + axis.roi_end) * last;
      return axis.roi_start * last + x * (axis.roi_end - axis.roi_start) * last / static_cast<double>(axis.output - 1);
  }
  return 0;
}

int64_t NearestInput(NearestMode mode, double at) {
  double low = std::floor(at);
  switch (mode) {
    case NearestMode::kRoundPreferFloor: low = at - low > 0.5 ? low + 1 : low; break;
    case NearestMode::kRoundPreferCeil: low = at - low >= 0.5 ? low + 1 : low; break;
    case NearestMode::kFloor: break;
    case NearestMode::kCeil: low = std::ceil(at); break;
  }
  return static_cast<int64_t>(low);
}

double LinearWeight(double distance) { return std::max(0.0, 1 - std::abs(distance)); }

double CubicWeight(double distance, double a) {
  double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// How far the filter reaches to each side, and how much it is stretched against aliasing.
struct Filter {
  double stretch;
  int64_t reach;

  Filter(const ResizeAttributes& attributes, double scale) {
    stretch = attributes.antialias && attributes.mode != ResizeMode::kNearest ? std::min(scale, 1.0) : 1.0;
    double radius = attributes.mode == ResizeMode::kCubic ? 2 : 1;
    double wanted = std::ceil(radius / stretch);
    constexpr double kFarthest = 1 << 24;
    Require(wanted <= kFarthest, "a scale of ", scale, " is too small to filter");
    reach = static_cast<int64_t>(wanted);
  }
};

void AddFiltered(const ResizeAttributes& attributes, const ResizeAxis& axis, const Filter& filter, double at,
                 AxisTaps& taps) {
  auto base = static_cast<int64_t>(std::floor(at));
  double sum = 0;
  size_t first = taps.weight.size();
  for (int64_t input = base - filter.reach + 1; input <= base + filter.reach; ++input) {
    double distance = filter.stretch * (static_cast<double>(input) - at);
    double weight =
        attributes.mode == ResizeMode::kCubic ? CubicWeight(distance, attributes.cubic_a) : LinearWeight(distance);
    if (attributes.exclude_outside && (input < 0 || input >= axis.input)) weight = 0;
    sum += weight;
    taps.input.push_back(std::clamp<int64_t>(input, 0, axis.input - 1));
    taps.weight.push_back(weight);
  }
  if (!attributes.exclude_outside && !attributes.antialias) return;
  if (sum == 0) return;
  for (size_t i = first; i < taps.weight.size(); ++i) taps.weight[i] /= sum;
}

}  // namespace

ResizeAttributes::ResizeAttributes(const Node& node) {
  mode = ReadChoice<ResizeMode>(
      node, "mode", "nearest",
      {{"nearest", ResizeMode::kNearest}, {"linear", ResizeMode::kLinear}, {"cubic", ResizeMode::kCubic}});
  nearest = ReadChoice<NearestMode>(node, "nearest_mode", "round_prefer_floor",
                                    {{"round_prefer_floor", NearestMode::kRoundPreferFloor},
                                     {"round_prefer_ceil", NearestMode::kRoundPreferCeil},
                                     {"floor", NearestMode::kFloor},
                                     {"ceil", NearestMode::kCeil}});
  coordinates = ReadChoice<CoordinateMode>(node, "coordinate_transformation_mode", "half_pixel",
                                           {{"half_pixel", CoordinateMode::kHalfPixel},
                                            {"half_pixel_symmetric", CoordinateMode::kHalfPixelSymmetric},
                                            {"pytorch_half_pixel", CoordinateMode::kPytorchHalfPixel},
                                            {"align_corners", CoordinateMode::kAlignCorners},
                                            {"asymmetric", CoordinateMode::kAsymmetric},
                                            {"tf_half_pixel_for_nn", CoordinateMode::kTfHalfPixelForNn},
                                            {"tf_crop_and_resize", CoordinateMode::kCrop}});
  policy = ReadChoice<AspectPolicy>(node, "keep_aspect_ratio_policy", "stretch",
                                    {{"stretch", AspectPolicy::kStretch},
                                     {"not_larger", AspectPolicy::kNotLarger},
                                     {"not_smaller", AspectPolicy::kNotSmaller}});
  antialias = node.Int("antialias", 0) != 0;
  exclude_outside = node.Int("exclude_outside", 0) != 0;
  cubic_a = node.Float("cubic_coeff_a", -0.75f);
  extrapolation = node.Float("extrapolation_value", 0.0f);
}

bool ResizeAxis::is_identity(const ResizeAttributes& attributes) const {
  bool is_cropped = attributes.coordinates == CoordinateMode::kCrop && (roi_start != 0 || roi_end != 1);
  bool is_shifted = attributes.coordinates == CoordinateMode::kTfHalfPixelForNn;
  return input == output && scale == 1 && !is_cropped && !is_shifted;
}

AxisTaps MakeTaps(const ResizeAttributes& attributes, const ResizeAxis& axis) {
  AxisTaps taps;
  Filter filter(attributes, axis.scale);
  taps.count = attributes.mode == ResizeMode::kNearest ? 1 : 2 * filter.reach;
  bool crops = attributes.coordinates == CoordinateMode::kCrop;
  if (crops) taps.outside.resize(static_cast<size_t>(axis.output));
  for (int64_t out = 0; out < axis.output; ++out) {
    double at = SourceCoordinate(attributes.coordinates, axis, out);
    if (crops) taps.outside[static_cast<size_t>(out)] = !(at >= 0 && at <= static_cast<double>(axis.input - 1));
    // Far outside everything is the edge; this also keeps the whole numbers in range.
    at = at == at ? std::clamp(at, -4.0 * (1 << 24), static_cast<double>(axis.input) + 4.0 * (1 << 24)) : 0.0;
    if (attributes.mode == ResizeMode::kNearest)
      taps.input.push_back(std::clamp<int64_t>(NearestInput(attributes.nearest, at), 0, axis.input - 1));
    else
      AddFiltered(attributes, axis, filter, at, taps);
  }
  return taps;
}

}  // namespace ferry
