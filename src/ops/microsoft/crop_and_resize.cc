// Boxes of images, given by their corners in parts of the image, sampled on a grid of one size.
#include <cmath>

#include "ops/operator.h"

namespace ferry {
namespace {

// Where sample i of `count` between two edges lies along an axis of `size` pixels.
float Place(float from, float to, int64_t i, int64_t count, int64_t size) {
  auto last = static_cast<float>(size - 1);
  if (count <= 1) return static_cast<float>(0.5 * static_cast<double>(from + to) * static_cast<double>(last));
  if (i == count - 1) return to * last;
  float step = (to - from) * last / static_cast<float>(count - 1);
  return from * last + static_cast<float>(i) * step;
}

struct CropPlan {
  int64_t channels, height, width, out_height, out_width;
  bool is_nearest;
  float outside;
};

float SampleAt(const CropPlan& plan, const float* plane, float y, float x) {
  if (plan.is_nearest) return plane[std::lround(y) * plan.width + std::lround(x)];
  auto top = static_cast<int64_t>(std::floor(y)), bottom = static_cast<int64_t>(std::ceil(y));
  auto left = static_cast<int64_t>(std::floor(x)), right = static_cast<int64_t>(std::ceil(x));
  float down = y - static_cast<float>(top), across = x - static_cast<float>(left);
  auto row = [&](int64_t i) {
    float a = plane[i * plan.width + left], b = plane[i * plan.width + right];
    return a + (b - a) * across;
  };
  float upper = row(top);
  return upper + (row(bottom) - upper) * down;
}

void ComputeCropAndResize(OpContext& context) {
  const Tensor &x = context.Input(0), &boxes = context.Input(1), &images = context.Input(2);
  std::string mode = context.node().String("mode", "bilinear");
  Require(mode == "bilinear" || mode == "nearest", "mode must be bilinear or nearest, is \"", Printable(mode), "\"");
  Require(x.rank() == 4 && x.dtype() == DType::kFloat, "X must be images of floats, is ", x.dtype(), x.shape());
  Require(boxes.rank() == 2 && boxes.dim(1) == 4 && boxes.dtype() == DType::kFloat && images.rank() == 1 &&
              images.dim(0) == boxes.dim(0),
          "rois ", boxes.shape(), " and batch_indices ", images.shape(), " do not go together");
  std::vector<int64_t> size = ToInt64Vector(context.Input(3)), chosen = ToInt64Vector(images);
  Require(size.size() == 2 && size[0] > 0 && size[1] > 0, "crop_size must be two positive numbers");
  for (int64_t image : chosen)
    Require(image >= 0 && image < x.dim(0), "batch_indices has ", image, ", there are ", x.dim(0), " images");
  Require(boxes.dim(0) == 0 || (x.dim(2) > 0 && x.dim(3) > 0), "images without pixels have nothing to sample");
  CropPlan plan{x.dim(1),
                x.dim(2),
                x.dim(3),
                size[0],
                size[1],
                mode == "nearest",
                context.node().Float("extrapolation_value", 0)};
  Tensor& y = context.Output(0, DType::kFloat, Shape{boxes.dim(0), plan.channels, size[0], size[1]});
  context.ParallelFor(boxes.dim(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* box = boxes.Data<float>() + n * 4;
      const float* image = x.Data<float>() + chosen[static_cast<size_t>(n)] * plan.channels * plan.height * plan.width;
      float* out = y.MutableData<float>() + n * plan.channels * size[0] * size[1];
      for (int64_t i = 0; i < size[0]; ++i)
        for (int64_t j = 0; j < size[1]; ++j) {
          float down = Place(box[0], box[2], i, size[0], plan.height);
          float across = Place(box[1], box[3], j, size[1], plan.width);
          // Written so that NaN is outside.
          bool inside = down >= 0 && down <= static_cast<float>(plan.height - 1) && across >= 0 &&
                        across <= static_cast<float>(plan.width - 1);
          for (int64_t c = 0; c < plan.channels; ++c)
            out[(c * size[0] + i) * size[1] + j] =
                inside ? SampleAt(plan, image + c * plan.height * plan.width, down, across) : plan.outside;
        }
    }
  });
}

void InferCropAndResize(InferContext& context) {
  SymbolicShape shape(4);
  if (const SymbolicShape* boxes = context.InputShape(1); boxes && !boxes->empty()) shape[0] = (*boxes)[0];
  if (const SymbolicShape* x = context.InputShape(0); x && x->size() == 4) shape[1] = (*x)[1];
  if (auto size = context.InputInts(3); size && size->size() == 2 && (*size)[0] > 0 && (*size)[1] > 0) {
    shape[2] = (*size)[0];
    shape[3] = (*size)[1];
  }
  context.SetOutput(0, context.InputDType(0), std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, CropAndResize, {.compute = ComputeCropAndResize, .infer = InferCropAndResize});

}  // namespace ferry
