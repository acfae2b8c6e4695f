#include <cmath>

#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// A sampling point along one axis: between two pixels.
template <class T>
struct Sample {
  int64_t low, high;
  T low_weight, high_weight;
};

// The sampling points of one bin along one axis. Those outside the image count but give nothing.
template <class T>
struct BinSamples {
  std::vector<Sample<T>> inside;
  bool any_outside = false;
};

// A region along one axis: its bins and how finely each is sampled.
template <class T>
struct RegionAxis {
  T start, bin;
  int64_t grid = 0;

  RegionAxis(T begin, T end, T scale, bool half_pixel, int64_t bins, int64_t sampling_ratio, int64_t size) {
    T shift = half_pixel ? T(0.5) : T{0};
    start = begin * scale - shift;
    T length = end * scale - shift - start;
    if (!half_pixel) length = std::max(length, T{1});
    bin = length / static_cast<T>(bins);
    if (sampling_ratio > 0) {
      grid = sampling_ratio;
    } else {
      T wanted = std::ceil(bin);
      // Points are then about a pixel apart; a region so much larger than its image has no meaning.
      T most = T{64} * static_cast<T>(size + 1);
      Require(wanted <= most || !(wanted == wanted), "a region of length ", static_cast<double>(length),
              " is far larger than the image of ", size);
      grid = wanted > 0 ? static_cast<int64_t>(wanted) : 0;
    }
  }

  BinSamples<T> Bin(int64_t index, int64_t size) const {
    BinSamples<T> samples;
    for (int64_t i = 0; i < grid; ++i) {
      T at = start + static_cast<T>(index) * bin + (static_cast<T>(i) + T(0.5)) * bin / static_cast<T>(grid);
      if (!(at >= T{-1} && at <= static_cast<T>(size)) || size == 0) {
        samples.any_outside = true;
        continue;
      }
      at = std::max(at, T{0});
      auto low = static_cast<int64_t>(at);
      if (low >= size - 1) {
        samples.inside.push_back({size - 1, size - 1, T{1}, T{0}});
      } else {
        T high_weight = at - static_cast<T>(low);
        samples.inside.push_back({low, low + 1, T{1} - high_weight, high_weight});
      }
    }
    return samples;
  }
};

template <class T>
T Average(const T* plane, int64_t width, const BinSamples<T>& rows, const BinSamples<T>& columns, T count) {
  T sum{0};
  for (const Sample<T>& y : rows.inside)
    for (const Sample<T>& x : columns.inside)
      sum += y.low_weight * x.low_weight * plane[y.low * width + x.low] +
             y.low_weight * x.high_weight * plane[y.low * width + x.high] +
             y.high_weight * x.low_weight * plane[y.high * width + x.low] +
             y.high_weight * x.high_weight * plane[y.high * width + x.high];
  return sum / count;
}

// The largest of the weighted corners of all points, not of the interpolated values: so the standard's cases have it.
template <class T>
T Largest(const T* plane, int64_t width, const BinSamples<T>& rows, const BinSamples<T>& columns) {
  bool any = rows.any_outside || columns.any_outside;
  T best{0};
  for (const Sample<T>& y : rows.inside)
    for (const Sample<T>& x : columns.inside) {
      T value = std::max({y.low_weight * x.low_weight * plane[y.low * width + x.low],
                          y.low_weight * x.high_weight * plane[y.low * width + x.high],
                          y.high_weight * x.low_weight * plane[y.high * width + x.low],
                          y.high_weight * x.high_weight * plane[y.high * width + x.high]});
      best = any ? std::max(best, value) : value;
      any = true;
    }
  return best;
}

struct AlignAttributes {
  bool takes_max, half_pixel;
  int64_t height, width, sampling_ratio;
  float scale;

  explicit AlignAttributes(const Node& node)
      : height(node.Int("output_height", 1)),
        width(node.Int("output_width", 1)),
        sampling_ratio(node.Int("sampling_ratio", 0)),
        scale(node.Float("spatial_scale", 1.0f)) {
    std::string mode = node.String("mode", "avg");
    Require(mode == "avg" || mode == "max", "mode must be avg or max, is '", Printable(mode), "'");
    takes_max = mode == "max";
    std::string transform = node.String("coordinate_transformation_mode", "half_pixel");
    Require(transform == "half_pixel" || transform == "output_half_pixel",
            "coordinate_transformation_mode must be half_pixel or output_half_pixel, is '", Printable(transform), "'");
    half_pixel = transform == "half_pixel";
    Require(height >= 1 && width >= 1, "the output must be at least 1 × 1, is ", height, " × ", width);
    constexpr int64_t kMostSamples = 4096;
    Require(sampling_ratio >= 0 && sampling_ratio <= kMostSamples, "sampling_ratio must be 0 to ", kMostSamples,
            ", is ", sampling_ratio);
  }
};

template <class T>
void AlignRegion(const AlignAttributes& attributes, const T* roi, const T* image, const Shape& x, T* out) {
  T scale = static_cast<T>(attributes.scale);
  RegionAxis<T> columns(roi[0], roi[2], scale, attributes.half_pixel, attributes.width, attributes.sampling_ratio,
                        x[3]);
  RegionAxis<T> rows(roi[1], roi[3], scale, attributes.half_pixel, attributes.height, attributes.sampling_ratio, x[2]);
  std::vector<BinSamples<T>> column_bins;
  for (int64_t j = 0; j < attributes.width; ++j) column_bins.push_back(columns.Bin(j, x[3]));
  T count = static_cast<T>(std::max<int64_t>(rows.grid * columns.grid, 1));
  int64_t plane_out = attributes.height * attributes.width;
  for (int64_t i = 0; i < attributes.height; ++i) {
    BinSamples<T> row_bin = rows.Bin(i, x[2]);
    for (int64_t channel = 0; channel < x[1]; ++channel) {
      const T* plane = image + channel * x[2] * x[3];
      for (int64_t j = 0; j < attributes.width; ++j) {
        const BinSamples<T>& column_bin = column_bins[static_cast<size_t>(j)];
        T value{0};
        if (rows.grid > 0 && columns.grid > 0)
          value = attributes.takes_max ? Largest(plane, x[3], row_bin, column_bin)
                                       : Average(plane, x[3], row_bin, column_bin, count);
        out[channel * plane_out + i * attributes.width + j] = value;
      }
    }
  }
}

void ComputeRoiAlign(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& rois = context.Input(1);
  const Tensor& images = context.Input(2);
  AlignAttributes attributes(context.node());
  Require(x.rank() == 4, "the input must have shape [N, C, H, W], has ", x.shape());
  Require(rois.rank() == 2 && rois.dim(1) == 4, "rois must have shape [count, 4], have ", rois.shape());
  Require(images.rank() == 1 && images.dim(0) == rois.dim(0), "batch_indices must have shape [", rois.dim(0),
          "], have ", images.shape());
  Shape shape{rois.dim(0), x.dim(1), attributes.height, attributes.width};
  Tensor& y = context.Output(0, x.dtype(), shape);
  Tensor wide_x = WidenToFloat(x), wide_rois = WidenToFloat(rois);
  Tensor result = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, shape) : y;
  const int64_t* image_of = images.Data<int64_t>();
  Dispatch(FloatTypes{}, wide_x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    int64_t image_size = x.shape().CountBetween(1, 4), out_size = shape.CountBetween(1, 4);
    const T* from = wide_x.Data<T>();
    const T* regions = wide_rois.Data<T>();
    T* to = result.MutableData<T>();
    context.ParallelFor(rois.dim(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Require(image_of[i] >= 0 && image_of[i] < x.dim(0), "region ", i, " is of image ", image_of[i], ", there are ",
                x.dim(0));
        AlignRegion<T>(attributes, regions + i * 4, from + image_of[i] * image_size, x.shape(), to + i * out_size);
      }
    });
  });
  NarrowInto(result, y);
}

void InferRoiAlign(InferContext& context) {
  AlignAttributes attributes(context.node());
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* rois = context.InputShape(1);
  const SymbolicShape* images = context.InputShape(2);
  if (x) Require(x->size() == 4, "the input must have shape [N, C, H, W], has ", *x);
  if (rois) Require(rois->size() == 2, "rois must have shape [count, 4], have ", *rois);
  Dim count = rois ? (*rois)[0] : Dim();
  if (!count.known() && images && images->size() == 1 && !(*images)[0].unknown()) count = (*images)[0];
  context.SetOutput(0, context.InputDType(0), {count, x ? (*x)[1] : Dim(), attributes.height, attributes.width});
}

}  // namespace

FERRY_OPERATOR(RoiAlign, {.compute = ComputeRoiAlign, .infer = InferRoiAlign});

}  // namespace ferry
