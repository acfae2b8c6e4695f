// Where an output of Resize finds its inputs along one axis, and with what weights.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/model.h"

namespace ferry {

enum class ResizeMode : uint8_t { kNearest, kLinear, kCubic };
enum class NearestMode : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };
enum class CoordinateMode : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kCrop,              // tf_crop_and_resize
  kTfHalfPixelForNn,  // of opset 11 only
};
enum class AspectPolicy : uint8_t { kStretch, kNotLarger, kNotSmaller };

struct ResizeAttributes {
  ResizeMode mode = ResizeMode::kNearest;
  NearestMode nearest = NearestMode::kRoundPreferFloor;
  CoordinateMode coordinates = CoordinateMode::kHalfPixel;
  AspectPolicy policy = AspectPolicy::kStretch;
  bool antialias = false, exclude_outside = false;
  double cubic_a = -0.75;
  float extrapolation = 0;

  explicit ResizeAttributes(const Node& node);
};

struct ResizeAxis {
  int64_t input = 0, output = 0;
  double scale = 1;
  double width = 0;  // the output's size before it was made a whole number
  double roi_start = 0, roi_end = 1;

  bool is_identity(const ResizeAttributes& attributes) const;
};

// For every output, `count` inputs with their weights. Inputs are clamped to the axis; `outside` tells the outputs that
// take the extrapolation value (empty: none).
struct AxisTaps {
  int64_t count = 0;
  std::vector<int64_t> input;
  std::vector<double> weight;
  std::vector<bool> outside;
};

// One plan per axis of x; an omitted input is null.
std::vector<ResizeAxis> PlanResize(const Node& node, const ResizeAttributes& attributes, const Shape& x,
                                   const Tensor* roi, const Tensor* scales, const Tensor* sizes);

AxisTaps MakeTaps(const ResizeAttributes& attributes, const ResizeAxis& axis);

}  // namespace ferry
