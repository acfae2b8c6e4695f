#include <algorithm>

#include "onnx/downgrade/rules.h"

namespace ferry {
namespace {

// Spreads numbers for some axes over all of them; the others get `fill`.
template <class T>
std::string Spread(NodeRewrite& r, size_t i, const std::vector<int64_t>& axes, size_t rank, std::vector<T> all,
                   std::string_view what) {
  auto constant = r.ConstantOf(r.node.inputs.at(i));
  if (!constant || constant->size() != static_cast<int64_t>(axes.size()))
    Refuse(what, " for some axes must be a constant");
  for (size_t k = 0; k < axes.size(); ++k) all[NormalizeAxis(axes[k], rank)] = constant->Data<T>()[k];
  return r.Constant(Tensor::FromVector(all), what);
}

void ResizeAllAxes(NodeRewrite& r) {
  DropInt(r, "antialias", 0);
  std::vector<int64_t> axes = r.node.Ints("axes");
  if (!axes.empty()) {
    size_t rank = RankOf(r, r.node.inputs.at(0));
    if (r.node.HasInput(2)) r.node.inputs[2] = Spread(r, 2, axes, rank, std::vector<float>(rank, 1.0f), "scales");
    if (r.node.HasInput(3)) {
      std::vector<int64_t> sizes;
      for (const Dim& dim : *r.ShapeOf(r.node.inputs[0])) sizes.push_back(dim.known() ? *dim.value : -1);
      for (size_t i = 0; i < rank; ++i) {
        bool resized =
            std::any_of(axes.begin(), axes.end(), [&](int64_t axis) { return NormalizeAxis(axis, rank) == i; });
        if (!resized && sizes[i] < 0) Refuse("sizes for some axes need the others to be known");
      }
      r.node.inputs[3] = Spread(r, 3, axes, rank, sizes, "sizes");
    }
    r.node.Remove("axes");
  }
  DropString(r, "keep_aspect_ratio_policy", "stretch");
}

void ResizeWithoutSymmetry(NodeRewrite& r) {
  if (r.node.String("coordinate_transformation_mode", "half_pixel") == "half_pixel_symmetric")
    Refuse("half_pixel_symmetric came with opset 19");
}

// Inputs that may be left out since opset 13 had to be there, if empty.
void ResizeWithEmptyInputs(NodeRewrite& r) {
  if (!r.node.HasInput(1)) r.SetInput(1, r.Constant(Tensor(DType::kFloat, Shape{0}), "roi"));
  if (!r.node.HasInput(2)) r.SetInput(2, r.Constant(Tensor(DType::kFloat, Shape{0}), "scales"));
}

// Resize of opset 10 and Upsample divide coordinates by the scale, and take the lower neighbour when enlarging.
void ResizeAsymmetric(NodeRewrite& r) {
  std::string mode = r.node.String("mode", "nearest");
  if (mode != "nearest" && mode != "linear") Refuse("mode '", Printable(mode), "' came with opset 11");
  if (r.node.String("coordinate_transformation_mode", "half_pixel") != "asymmetric")
    Refuse("coordinates other than 'asymmetric' came with opset 11");
  std::string nearest = r.node.String("nearest_mode", "round_prefer_floor");
  if (r.node.HasInput(3) || !r.node.HasInput(2)) Refuse("sizes came with opset 11");
  auto scales = r.ConstantOf(r.node.inputs[2]);
  if (!scales || scales->dtype() != DType::kFloat) Refuse("scales are computed while running");
  auto values = scales->Span<float>();
  bool grows = std::all_of(values.begin(), values.end(), [](float scale) { return scale >= 1; });
  bool shrinks = std::all_of(values.begin(), values.end(), [](float scale) { return scale <= 1; });
  bool said = mode == "linear" || (nearest == "floor" && grows) || (nearest == "ceil" && shrinks);
  if (!said) Refuse("nearest_mode '", Printable(nearest), "' came with opset 11");
  std::string x = r.node.inputs[0], all_scales = r.node.inputs[2];
  r.node.attributes = {Attribute("mode", mode)};
  r.node.inputs = {x, all_scales};
  if (r.opset >= 10) return;
  if (!grows) Refuse("Upsample, the form before opset 10, only enlarges");
  r.node.op_type = "Upsample";
  if (r.opset >= 9) return;
  r.node.Set("scales", std::vector<float>(values.begin(), values.end()));
  r.node.inputs.resize(1);
}

void GridSampleModes(NodeRewrite& r) {
  std::string mode = r.node.String("mode", "linear");
  if (mode == "linear") r.node.Set("mode", std::string("bilinear"));
  if (mode == "cubic") r.node.Set("mode", std::string("bicubic"));
  if (RankOf(r, r.node.inputs.at(0)) != 4) Refuse("GridSample took images only before opset 20");
}

void RoiAlignOutputHalfPixel(NodeRewrite& r) {
  if (r.node.String("coordinate_transformation_mode", "half_pixel") != "output_half_pixel")
    Refuse("coordinate_transformation_mode 'half_pixel' came with opset 16");
  r.node.Remove("coordinate_transformation_mode");
}

constexpr DowngradeRule kRules[] = {
    {"Resize", 19, ResizeWithoutSymmetry}, {"Resize", 18, ResizeAllAxes},
    {"Resize", 13, ResizeWithEmptyInputs}, {"Resize", 11, ResizeAsymmetric},
    {"GridSample", 20, GridSampleModes},   {"RoiAlign", 16, RoiAlignOutputHalfPixel},
};

}  // namespace

std::span<const DowngradeRule> ResizeDowngrades() { return kRules; }

}  // namespace ferry
