// Operators that ONNX tried out before 1.5 and ONNX Runtime still has, in the standard's domain: Affine, Crop,
// DynamicSlice, ImageScaler, ParametricSoftplus, Scale and ScaledTanh.
#include "ops/support/compose.h"
#include "ops/support/fused_parts.h"

namespace ferry {
namespace {

Term Times(Composer& c, Term x, float factor) { return c.Call("Mul", {x, c.Number(factor, x.type())}); }

void ComposeAffine(Composer& c) {
  Term y = Times(c, c.In(0), c.node().Float("alpha", 1));
  c.Out(0, c.Call("Add", {y, c.Number(c.node().Float("beta", 0), y.type())}));
}

void ComposeScale(Composer& c) { c.Out(0, Times(c, c.In(0), c.node().Float("scale", 1))); }

void ComposeParametricSoftplus(Composer& c) {
  c.Out(0,
        ComposeActivation(c, c.In(0), "ParametricSoftplus", c.node().Float("alpha", 0), c.node().Float("beta", 0), 0));
}

void ComposeScaledTanh(Composer& c) {
  c.Out(0, ComposeActivation(c, c.In(0), "ScaledTanh", c.node().Float("alpha", 0), c.node().Float("beta", 0), 0));
}

void ComposeImageScaler(Composer& c) {
  Term x = c.In(0);
  std::vector<float> bias = c.node().Floats("bias");
  Require(x.rank() == 4, "the input must have 4 axes, has ", x.rank());
  if (bias.empty()) return c.Out(0, Times(c, x, c.node().Float("scale", 1)));
  auto channels = static_cast<int64_t>(bias.size());
  if (x.shape()[1].known())
    Require(*x.shape()[1].value == channels, "bias has ", channels, " numbers for ", *x.shape()[1].value, " channels");
  Term each = c.Constant(Tensor::FromVector(bias, Shape{1, channels, 1, 1}));
  c.Out(0, c.Call("Add", {Times(c, x, c.node().Float("scale", 1)), c.Cast(each, x.type())}));
}

// border: left, top, right, bottom; scale: height and width of what is left instead of the last two.
void ComposeCrop(Composer& c) {
  std::vector<int64_t> border = c.node().Ints("border"), scale = c.node().Ints("scale");
  Term x = c.In(0);
  Require(x.rank() == 4 && border.size() == 4 && (scale.empty() || scale.size() == 2),
          "an input of 4 axes, 4 numbers of border and 2 or none of scale are needed");
  int64_t height = x.size(2), width = x.size(3);
  for (int64_t value : border) Require(value >= 0, "border must not be negative, has ", value);
  int64_t bottom = scale.empty() ? height - border[3] : scale[0] > height ? height + 1 : border[1] + scale[0];
  int64_t right = scale.empty() ? width - border[2] : scale[1] > width ? width + 1 : border[0] + scale[1];
  Require(border[1] <= bottom && bottom <= height && border[0] <= right && right <= width, "an image of ", height,
          " × ", width, " cannot be cropped that way");
  c.Out(0, c.Call("Slice", {x, c.Ints({border[1], border[0]}), c.Ints({bottom, right}), c.Ints({2, 3})}));
}

void ComposeDynamicSlice(Composer& c) { c.Out(0, c.Call("Slice", {c.In(0), c.In(1), c.In(2), c.In(3)})); }

}  // namespace

FERRY_OPERATOR(Affine, (Composed<ComposeAffine>()));
FERRY_OPERATOR(Crop, (Composed<ComposeCrop>()));
FERRY_OPERATOR(DynamicSlice, (Composed<ComposeDynamicSlice>()));
FERRY_OPERATOR(ImageScaler, (Composed<ComposeImageScaler>()));
FERRY_OPERATOR(ParametricSoftplus, (Composed<ComposeParametricSoftplus>()));
FERRY_OPERATOR(Scale, (Composed<ComposeScale>()));
FERRY_OPERATOR(ScaledTanh, (Composed<ComposeScaledTanh>()));
FERRY_COMPOSITION(onnx, Affine, ComposeAffine);
FERRY_COMPOSITION(onnx, Crop, ComposeCrop);
FERRY_COMPOSITION(onnx, DynamicSlice, ComposeDynamicSlice);
FERRY_COMPOSITION(onnx, ImageScaler, ComposeImageScaler);
FERRY_COMPOSITION(onnx, ParametricSoftplus, ComposeParametricSoftplus);
FERRY_COMPOSITION(onnx, Scale, ComposeScale);
FERRY_COMPOSITION(onnx, ScaledTanh, ComposeScaledTanh);

}  // namespace ferry
