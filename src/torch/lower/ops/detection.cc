// torchvision's own operators: boxes, regions of images, deformed convolutions.
#include <cmath>
#include <limits>

#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

// PyTorch compares a float with a double: the largest float that is not above the threshold decides the same.
Operand Threshold(Call& c, size_t i) {
  Scalar given = c.Number(i);
  if (!given.is_known()) return c.b.Of(given, DType::kFloat);
  double wanted = given.AsDouble();
  if (wanted < 0) c.Unsupported("a threshold of ", wanted, " lets no two boxes stay");
  auto threshold = static_cast<float>(std::min(wanted, 1.0));
  if (static_cast<double>(threshold) > wanted) threshold = std::nextafterf(threshold, 0.0f);
  return c.b.Number(threshold, DType::kFloat);
}

Result Nms(Call& c) {
  Operand boxes = c.b.Cast(c.Tensor(0), DType::kFloat), scores = c.b.Cast(c.Tensor(1), DType::kFloat);
  Operand kept = c.b.Emit("NonMaxSuppression",
                          {c.b.Unsqueeze(boxes, {0}), c.b.Unsqueeze(scores, {0, 1}),
                           c.b.Ints({std::numeric_limits<int64_t>::max()}), c.b.Unsqueeze(Threshold(c, 2), {0})});
  return c.b.Select(kept, 1, 2);
}

// Rows of (image, x1, y1, x2, y2), as torchvision has them, and the scale that leads to the picture.
struct Regions {
  Operand rows;
  float scale = 1;  // 1 when it is only known while the model runs: the rows are scaled then
};
Regions ReadRegions(Call& c) {
  Operand rows = c.b.CastLike(c.Tensor(1), c.Tensor(0));
  if (rows.rank() != 2) c.Unsupported("regions are given as a tensor of shape ", rows.shape(), ", not [K, 5]");
  Scalar scale = c.Number(2);
  if (scale.is_known()) return {rows, static_cast<float>(scale.AsDouble())};
  Operand factor = c.b.Unsqueeze(c.b.Of(scale, rows.dtype()), {0});
  Operand one = c.b.Unsqueeze(c.b.Number(1, rows.dtype()), {0});
  return {c.b.Mul(rows, c.b.Concat({one, factor, factor, factor, factor}, 0)), 1};
}
Operand BoxesOf(Call& c, const Regions& regions) { return c.b.Slice(regions.rows, 1, Scalar(1), Scalar(5)); }
Operand ImagesOf(Call& c, const Regions& regions) { return c.b.Cast(c.b.Select(regions.rows, 1, 0), DType::kInt64); }

Operand Align(Call& c, const Operand& x, int64_t sampling_ratio, bool aligned) {
  // Before opset 16 the operator knows only the older rule, that of aligned=False.
  if (aligned && c.b.opset() < 16) c.Unsupported("regions with aligned=True need opset 16");
  Regions regions = ReadRegions(c);
  Attributes attributes = {
      {"output_height", c.PositiveInt(3)},
      {"output_width", c.PositiveInt(4)},
      {"sampling_ratio", std::max<int64_t>(sampling_ratio, 0)},
      {"spatial_scale", regions.scale},
      {"coordinate_transformation_mode", std::string(aligned ? "half_pixel" : "output_half_pixel")}};
  return c.b.Emit("RoiAlign", {x, BoxesOf(c, regions), ImagesOf(c, regions)}, attributes);
}
Result RoiAlign(Call& c) { return Align(c, c.Tensor(0), c.Int(5), c.Bool(6)); }

// Each bin reads channels of its own: the aligned regions of all channels, of which the bin's are picked.
Result PositionSensitiveAlign(Call& c) {
  Operand aligned = Align(c, c.Tensor(0), c.Int(5), true);
  int64_t bins = c.PositiveInt(3) * c.PositiveInt(4);
  Dim channels = aligned.dim(1);
  if (!channels.known() || *channels.value % bins != 0)
    c.Unsupported("its ", channels, " channels cannot be shared out to ", bins, " bins");
  std::vector<int64_t> own;
  for (int64_t bin = 0; bin < bins; ++bin) own.push_back(bin * bins + bin);
  Scalar count = c.b.SizeScalar(aligned, 0);
  Scalar groups(*channels.value / bins);
  Operand all = c.b.View(aligned, {count, groups, Scalar(bins * bins)});
  Operand picked = c.b.Gather(all, c.b.Ints(own), 2);
  Result result(c.b.View(picked, {count, groups, Scalar(c.PositiveInt(3)), Scalar(c.PositiveInt(4))}));
  result.items.emplace_back();  // which channel each bin read: for gradients
  return result;
}

Result RoiPool(Call& c) {
  Regions regions = ReadRegions(c);
  std::vector<int64_t> pooled = {c.PositiveInt(3), c.PositiveInt(4)};
  Result result(c.b.Emit("MaxRoiPool", {c.Tensor(0), regions.rows},
                         {{"pooled_shape", pooled}, {"spatial_scale", regions.scale}}));
  result.items.emplace_back();  // where each maximum was: for gradients
  return result;
}

Result DeformConv(Call& c) {
  Operand weight = c.Tensor(1);
  auto two = [&](size_t i, int64_t least) {
    return std::vector<int64_t>{c.IntsOf(i, 1, least)[0], c.IntsOf(i + 1, 1, least)[0]};
  };
  std::vector<int64_t> pads = two(7, 0), kernel;
  for (int64_t axis : {2, 3}) {
    if (!weight.dim(axis).known()) c.Unsupported("the size of its kernel is not known");
    kernel.push_back(*weight.dim(axis).value);
  }
  Attributes attributes = {{"strides", two(5, 1)},
                           {"pads", std::vector<int64_t>{pads[0], pads[1], pads[0], pads[1]}},
                           {"dilations", two(9, 1)},
                           {"group", c.PositiveInt(11)},
                           {"offset_group", c.PositiveInt(12)},
                           {"kernel_shape", kernel}};
  Operands inputs = {c.Tensor(0), weight, c.Tensor(2), c.Tensor(4), c.Bool(13) ? c.Tensor(3) : Operand()};
  return c.b.Emit("DeformConv", inputs, attributes);
}

#define REGION_ARGS "Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width"
constexpr Rule kRules[] = {
    {"torchvision.nms(Tensor dets, Tensor scores, float iou_threshold)", Nms},
    {"torchvision.roi_align(" REGION_ARGS ", int sampling_ratio, bool aligned)", RoiAlign},
    {"torchvision.roi_pool(" REGION_ARGS ")", RoiPool},
    {"torchvision.ps_roi_align(" REGION_ARGS ", int sampling_ratio)", PositionSensitiveAlign},
    {"torchvision.deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int stride_h, "
     "int "
     "stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, int offset_groups, bool use_mask)",
     DeformConv},
};
#undef REGION_ARGS

}  // namespace

std::span<const Rule> DetectionRules() { return kRules; }

}  // namespace ferry::torch
