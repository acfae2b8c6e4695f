// Images at other sizes and places: interpolation, grid sampling, shuffles of pixels, folding.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "torch/lower/families.h"
#include "torch/lower/ops/nearest.h"

namespace ferry::torch {
namespace {

struct Resampling {
  std::vector<Scalar> sizes;    // of the spatial axes; empty when factors decide
  std::vector<double> factors;  // empty when sizes decide; both are given where factors only decide about places
  bool align_corners = false;
  bool antialias = false;
};

std::vector<Scalar> ScaledSizes(Call& c, const Operand& x, const std::vector<double>& factors);

// Factors as ONNX has them, in float, never below what they stand for: what is too much is cut off.
std::vector<float> FactorsUpwards(size_t rank, const std::vector<double>& factors) {
  std::vector<float> upwards(rank - factors.size(), 1.0f);
  for (double factor : factors) {
    auto near = static_cast<float>(factor);
    bool below = static_cast<double>(near) < factor;
    upwards.push_back(below ? std::nextafter(near, std::numeric_limits<float>::infinity()) : near);
  }
  return upwards;
}

Operand ResizeByFactors(Call& c, const Operand& x, const std::vector<double>& factors, const Attributes& attributes) {
  std::vector<float> upwards = FactorsUpwards(x.rank(), factors);
  Operand y = c.b.Emit("Resize", {x, Operand(), c.b.Constant(Tensor::FromVector<float>(upwards))}, attributes);
  size_t first = x.rank() - factors.size();
  std::vector<Scalar> sizes;
  for (size_t i = 0; i < factors.size(); ++i) {
    // Of such a factor the product with a size is exact.
    if (factors[i] * 0x1p10 == std::floor(factors[i] * 0x1p10)) continue;
    if (sizes.empty()) sizes = ScaledSizes(c, x, factors);
    y = c.b.Slice(y, static_cast<int64_t>(first + i), Scalar(0), sizes[i]);
  }
  return y;
}

bool IsNearestInResize(const Operand& x, const Resampling& r) {
  if (!r.factors.empty() && !r.sizes.empty()) return false;
  for (double factor : r.factors)
    if (!IsSameInResize(factor)) return false;
  for (size_t i = 0; r.factors.empty() && i < r.sizes.size(); ++i) {
    Dim from = x.dim(static_cast<int64_t>(x.rank() - r.sizes.size() + i));
    bool known = from.known() && r.sizes[i].is_known() && *from.value > 0;
    if (!known || !IsSameInResize(r.sizes[i].AsDouble() / static_cast<double>(*from.value))) return false;
  }
  return true;
}

Operand ResizeOf(Call& c, const Operand& x, const Resampling& r, const std::string& mode) {
  Attributes attributes = {{"mode", mode}};
  bool exact = c.op_name().find("exact") != std::string::npos;
  if (mode == "nearest" && !IsNearestInResize(x, r)) {
    std::vector<Stretching> axes;
    for (const Scalar& size : r.sizes.empty() ? ScaledSizes(c, x, r.factors) : r.sizes) axes.push_back({size, {}});
    for (size_t i = 0; i < r.factors.size(); ++i) axes.at(i).factor = r.factors[i];
    return NearestOf(c.b, x, axes, exact);
  }
  if (mode == "nearest") {
    attributes.push_back({"coordinate_transformation_mode", std::string(exact ? "half_pixel" : "asymmetric")});
    attributes.push_back({"nearest_mode", std::string(exact ? "round_prefer_ceil" : "floor")});
  } else {
    attributes.push_back(
        {"coordinate_transformation_mode", std::string(r.align_corners ? "align_corners" : "half_pixel")});
    if (mode == "cubic") attributes.push_back({"cubic_coeff_a", r.antialias ? -0.5f : -0.75f});
  }
  // PyTorch leaves out what lies outside the image and takes the rest for the whole.
  if (r.antialias) attributes.insert(attributes.end(), {{"antialias", int64_t{1}}, {"exclude_outside", int64_t{1}}});
  size_t axes = r.sizes.size();
  if (r.factors.empty()) {
    std::vector<Scalar> sizes = r.sizes;
    if (c.b.opset() >= 18) {
      std::vector<int64_t> spatial(axes);
      std::iota(spatial.begin(), spatial.end(), static_cast<int64_t>(x.rank() - axes));
      attributes.push_back({"axes", spatial});
    } else {
      for (size_t i = x.rank() - axes; i-- > 0;)
        sizes.insert(sizes.begin(), c.b.SizeScalar(x, static_cast<int64_t>(i)));
    }
    return c.b.Widened("Resize", {x, Operand(), Operand(), c.b.ShapeVector(sizes)}, attributes);
  }
  return ResizeByFactors(c, x, r.factors, attributes);
}

// PyTorch's antialiasing takes the distance between pixels from the corners and their places from the halves; ONNX has
// both from the same.
void RequireOneMeaning(Call& c, const Operand& x, const Resampling& r) {
  if (!r.antialias || !r.align_corners) return;
  for (size_t i = 0; i < r.sizes.size(); ++i) {
    Dim from = x.dim(static_cast<int64_t>(x.rank() - r.sizes.size() + i));
    bool same = from.known() && r.sizes[i].is_known() && r.sizes[i].AsInt() == *from.value;
    if (!same)
      c.Unsupported("antialiasing between corners, which ONNX defines in another way; set align_corners=False");
  }
}

std::string ModeOf(Call& c) {
  std::string name = c.op_name();
  if (name.find("nearest") != std::string::npos) return "nearest";
  return name.find("bicubic") != std::string::npos ? "cubic" : "linear";
}

std::vector<double> Factors(Call& c, size_t i) {
  std::vector<double> factors;
  for (const Scalar& factor : c.Numbers(i)) factors.push_back(factor.AsDouble());
  return factors;
}

std::vector<Scalar> ScaledSizes(Call& c, const Operand& x, const std::vector<double>& factors) {
  std::vector<Scalar> sizes;
  for (size_t i = 0; i < factors.size(); ++i) {
    auto axis = static_cast<int64_t>(x.rank() - factors.size() + i);
    Dim size = x.dim(axis);
    if (size.known()) {
      double scaled = std::floor(static_cast<double>(*size.value) * factors[i]);
      Require(scaled >= 0 && scaled < 0x1p48, "an axis of ", *size.value, " cannot be scaled by ", factors[i]);
      sizes.push_back(Scalar(static_cast<int64_t>(scaled)));
    } else {
      Operand scaled = c.b.Mul(c.b.Cast(c.b.SizeOf(x, axis), DType::kDouble), factors[i]);
      sizes.push_back(Scalar(Scalar::Kind::kInt, c.b.Cast(c.b.Floor(scaled), DType::kInt64)));
    }
  }
  return sizes;
}

// .vec forms: input, output_size?, [align_corners,] scale_factors?
Result UpsampleVec(Call& c) {
  bool nearest = ModeOf(c) == "nearest";
  Resampling r{.sizes = c.Numbers(1), .align_corners = !nearest && c.Bool(2)};
  if (r.sizes.empty()) r.factors = Factors(c, nearest ? 2 : 3);
  // Between corners only the sizes matter, not the factors they came from.
  if (r.align_corners && r.sizes.empty()) {
    r.sizes = ScaledSizes(c, c.Tensor(0), r.factors);
    r.factors.clear();
  }
  r.antialias = c.op_name().ends_with("_aa");
  RequireOneMeaning(c, c.Tensor(0), r);
  return ResizeOf(c, c.Tensor(0), r, ModeOf(c));
}
// The other forms: self, output_size, [align_corners,] a factor per axis, which only matters when it is not the
// quotient.
Result Upsample(Call& c) {
  bool nearest = ModeOf(c) == "nearest";
  Operand x = c.Tensor(0);
  Resampling r{.sizes = c.Numbers(1), .align_corners = !nearest && c.Bool(2)};
  r.antialias = c.op_name().ends_with("_aa");
  RequireOneMeaning(c, x, r);
  size_t first = nearest ? 2 : 3, quotients = 0;
  for (size_t i = 0; i < r.sizes.size(); ++i) {
    if (c.IsNone(first + i)) {
      ++quotients;
      continue;
    }
    Dim from = x.dim(static_cast<int64_t>(x.rank() - r.sizes.size() + i));
    quotients += from.known() && r.sizes[i].is_known() &&
                 c.Float(first + i) * static_cast<double>(*from.value) == r.sizes[i].AsDouble();
    r.factors.push_back(c.Float(first + i));
  }
  if (quotients == r.sizes.size() || r.align_corners) r.factors.clear();
  bool mixed = !r.factors.empty() && r.factors.size() != r.sizes.size();
  if (mixed || (!r.factors.empty() && !nearest)) c.Unsupported("a scale factor that is not the quotient of the sizes");
  return ResizeOf(c, x, r, ModeOf(c));
}

// PyTorch's bicubic sampling repeats the border for each of the 16 pixels; ONNX moves the whole place to the border
// first. So the image gets a border wide enough for every place: two pixels out, all 16 are the same.
Operand CubicWithinBorder(Call& c, const Operand& image, const Operand& grid, bool align_corners) {
  Builder& b = c.b;
  constexpr int64_t kBorder = 4;
  Operands places;
  for (int64_t i = 0; i < 2; ++i) {
    Operand size = b.CastLike(b.AsRank0(b.SizeOf(image, 3 - i)), grid);
    Operand place = b.Mul(b.Add(b.Select(grid, -1, i), 1), 0.5);  // from 0 to 1
    place = align_corners ? b.Mul(place, b.Sub(size, 1)) : b.Sub(b.Mul(place, size), 0.5);
    place = b.Min(b.Max(place, b.NumberLike(-2, grid)), b.Add(size, 1));
    Operand last = b.Add(size, static_cast<double>(2 * kBorder - 1));
    place = b.Sub(b.Div(b.Mul(b.Add(place, static_cast<double>(kBorder)), 2), last), 1);
    places.push_back(b.Unsqueeze(place, {-1}));
  }
  Operand wide =
      b.Emit("Pad", {image, b.Ints({0, 0, kBorder, kBorder, 0, 0, kBorder, kBorder})}, {{"mode", std::string("edge")}});
  return b.Widened("GridSample", {wide, b.Concat(places, -1)},
                   {{"mode", std::string(b.opset() >= 20 ? "cubic" : "bicubic")},
                    {"padding_mode", std::string("zeros")},
                    {"align_corners", int64_t{1}}});
}

// Interpolation 0 bilinear, 1 nearest, 2 bicubic; padding 0 zeros, 1 border, 2 reflection.
Result GridSample(Call& c) {
  int64_t mode = c.Int(2), padding = c.Int(3);
  static constexpr const char* kNew[] = {"linear", "nearest", "cubic"};
  static constexpr const char* kOld[] = {"bilinear", "nearest", "bicubic"};
  static constexpr const char* kPadding[] = {"zeros", "border", "reflection"};
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
    c.Unsupported("interpolation ", mode, " with padding ", padding, " is unknown");
  if (c.Tensor(0).rank() == 5 && c.b.opset() < 20) c.Unsupported("sampling volumes needs opset 20");
  if (mode == 2 && padding == 2) c.Unsupported("ONNX reflects bicubic samples in another way than PyTorch");
  if (mode == 2 && padding == 1)
    return CubicWithinBorder(c, c.Tensor(0), c.b.CastLike(c.Tensor(1), c.Tensor(0)), c.Bool(4));
  return c.b.Widened("GridSample", {c.Tensor(0), c.b.CastLike(c.Tensor(1), c.Tensor(0))},
                     {{"mode", std::string(c.b.opset() >= 20 ? kNew[mode] : kOld[mode])},
                      {"padding_mode", std::string(kPadding[padding])},
                      {"align_corners", int64_t{c.Bool(4)}}});
}
Result AffineGrid(Call& c) {
  return c.b.Emit("AffineGrid", {c.Tensor(0), c.b.ShapeVector(c.Numbers(1))}, {{"align_corners", int64_t{c.Bool(2)}}});
}

std::vector<Scalar> LeadingSizes(Call& c, const Operand& x, size_t drop) {
  std::vector<Scalar> sizes = c.b.Sizes(x);
  sizes.resize(x.rank() - drop);
  return sizes;
}
int64_t KnownSize(Call& c, const Operand& x, int64_t axis) {
  Dim size = x.dim(axis);
  if (!size.known()) c.Unsupported("the size of axis ", axis, " is not known");
  return *size.value;
}
// Views like [.., a, b, ..] → permuted → merged, the last `drop` axes being replaced.
Operand Rearranged(Call& c, const Operand& x, size_t drop, const std::vector<Scalar>& split,
                   const std::vector<int64_t>& order, const std::vector<Scalar>& merged) {
  std::vector<Scalar> before = LeadingSizes(c, x, drop), after = before;
  std::vector<int64_t> full(before.size());
  std::iota(full.begin(), full.end(), 0);
  for (int64_t axis : order) full.push_back(static_cast<int64_t>(before.size()) + axis);
  before.insert(before.end(), split.begin(), split.end());
  after.insert(after.end(), merged.begin(), merged.end());
  return c.b.View(c.b.Transpose(c.b.View(x, before), full), after);
}
Scalar Times(Call& c, const Operand& x, int64_t axis, int64_t factor) {
  Dim size = x.dim(axis);
  if (size.known()) return Scalar(CheckedProduct(*size.value, factor));
  return Scalar(Scalar::Kind::kInt, c.b.Mul(c.b.SizeOf(x, axis), c.b.Ints({factor})));
}
Result PixelShuffle(Call& c) {
  Operand x = c.Tensor(0);
  int64_t r = c.PositiveInt(1);
  if (x.rank() == 4) return c.b.Widened("DepthToSpace", {x}, {{"blocksize", r}, {"mode", std::string("CRD")}});
  int64_t channels = KnownSize(c, x, -3) / (r * r);
  std::vector<Scalar> split = {Scalar(channels), Scalar(r), Scalar(r), c.b.SizeScalar(x, -2), c.b.SizeScalar(x, -1)};
  return Rearranged(c, x, 3, split, {0, 3, 1, 4, 2}, {Scalar(channels), Times(c, x, -2, r), Times(c, x, -1, r)});
}
Result PixelUnshuffle(Call& c) {
  Operand x = c.Tensor(0);
  int64_t r = c.PositiveInt(1), channels = KnownSize(c, x, -3), height = KnownSize(c, x, -2),
          width = KnownSize(c, x, -1);
  std::vector<Scalar> split = {Scalar(channels), Scalar(height / r), Scalar(r), Scalar(width / r), Scalar(r)};
  return Rearranged(c, x, 3, split, {0, 2, 4, 1, 3},
                    {Scalar(CheckedProduct(channels, r * r)), Scalar(height / r), Scalar(width / r)});
}
Result ChannelShuffle(Call& c) {
  Operand x = c.Tensor(0);
  int64_t groups = c.PositiveInt(1), channels = KnownSize(c, x, 1);
  std::vector<Scalar> sizes = c.b.Sizes(x), split = sizes;
  split[1] = Scalar(channels / groups);
  split.insert(split.begin() + 1, Scalar(groups));
  return c.b.View(c.b.SwapAxes(c.b.View(x, split), 1, 2), sizes);
}

// More than any image has; a program may claim to be larger.
constexpr int64_t kMostIndices = int64_t{1} << 24;

// Windows of an image as columns: [N, C · kh · kw, places].
Result Im2Col(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0);
  bool unbatched = x.rank() == 3;
  if (unbatched) x = b.Unsqueeze(x, {0});
  std::vector<int64_t> kernel = c.IntsOf(1, 2, 1), dilation = c.IntsOf(2, 2, 1), padding = c.IntsOf(3, 2, 0),
                       stride = c.IntsOf(4, 2, 1);
  if (padding[0] != 0 || padding[1] != 0)
    x = b.Emit("Pad", {x, b.Ints({0, 0, padding[0], padding[1], 0, 0, padding[0], padding[1]})});
  Scalar batch = b.SizeScalar(x, 0), channels = b.SizeScalar(x, 1);
  for (int64_t axis : {2, 3}) {
    auto i = static_cast<size_t>(axis - 2);
    int64_t size = KnownSize(c, x, axis == 2 ? 2 : -1);
    int64_t places = (size - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
    if (places < 1 || places > kMostIndices / kernel[i])
      c.Unsupported("an axis of ", size, " gives ", places, " places of a window of ", kernel[i]);
    std::vector<int64_t> index;
    for (int64_t k = 0; k < kernel[i]; ++k)
      for (int64_t p = 0; p < places; ++p) index.push_back(k * dilation[i] + p * stride[i]);
    // The first time rows become [kh, places], then columns do.
    x = b.Gather(x, b.Constant(Tensor::FromVector<int64_t>(index, {kernel[i], places})), axis == 2 ? 2 : -1);
  }
  Operand columns = b.Transpose(x, {0, 1, 2, 4, 3, 5});
  Dim places = columns.dim(4) * columns.dim(5);
  Dim rows = channels.AsDim() * Dim(kernel[0] * kernel[1]);
  if (!places.known() || !rows.known()) c.Unsupported("its sizes are not known");
  Operand y = b.View(columns, {batch, Scalar(*rows.value), Scalar(*places.value)});
  return unbatched ? b.Squeeze(y, {0}) : y;
}
Result Col2Im(Call& c) {
  Operand x = c.Tensor(0);
  bool unbatched = x.rank() == 2;
  std::vector<int64_t> kernel = c.IntsOf(2, 2, 1), dilation = c.IntsOf(3, 2, 1), padding = c.IntsOf(4, 2, 0),
                       stride = c.IntsOf(5, 2, 1);
  Operand y =
      c.b.Widened("Col2Im", {unbatched ? c.b.Unsqueeze(x, {0}) : x, c.b.ShapeVector(c.Numbers(1)), c.b.Ints(kernel)},
                  {{"dilations", dilation},
                   {"pads", std::vector<int64_t>{padding[0], padding[1], padding[0], padding[1]}},
                   {"strides", stride}});
  return unbatched ? c.b.Squeeze(y, {0}) : y;
}

#define VEC "(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)"
#define NEAREST_VEC "(Tensor input, SymInt[]? output_size, float[]? scale_factors)"

constexpr Rule kRules[] = {
    {"upsample_nearest1d.vec" NEAREST_VEC, UpsampleVec},
    {"upsample_nearest2d.vec" NEAREST_VEC, UpsampleVec},
    {"upsample_nearest3d.vec" NEAREST_VEC, UpsampleVec},
    {"_upsample_nearest_exact1d.vec" NEAREST_VEC, UpsampleVec},
    {"_upsample_nearest_exact2d.vec" NEAREST_VEC, UpsampleVec},
    {"_upsample_nearest_exact3d.vec" NEAREST_VEC, UpsampleVec},
    {"upsample_linear1d.vec" VEC, UpsampleVec},
    {"upsample_bilinear2d.vec" VEC, UpsampleVec},
    {"upsample_bicubic2d.vec" VEC, UpsampleVec},
    {"upsample_trilinear3d.vec" VEC, UpsampleVec},
    {"_upsample_bilinear2d_aa.vec" VEC, UpsampleVec},
    {"_upsample_bicubic2d_aa.vec" VEC, UpsampleVec},
    {"upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None)", Upsample},
    {"upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None)", Upsample},
    {"upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? "
     "scales_w=None)",
     Upsample},
    {"_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None)", Upsample},
    {"_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None)",
     Upsample},
    {"_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? "
     "scales_w=None)",
     Upsample},
    {"upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None)", Upsample},
    {"upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? "
     "scales_w=None)",
     Upsample},
    {"upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? "
     "scales_w=None)",
     Upsample},
    {"upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? "
     "scales_h=None, float? scales_w=None)",
     Upsample},
    {"_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? "
     "scales_w=None)",
     Upsample},
    {"_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? "
     "scales_w=None)",
     Upsample},
    {"grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)",
     GridSample},
    {"grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)",
     GridSample},
    {"grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)",
     GridSample},
    {"affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners)", AffineGrid},
    {"pixel_shuffle(Tensor self, int upscale_factor)", PixelShuffle},
    {"pixel_unshuffle(Tensor self, int downscale_factor)", PixelUnshuffle},
    {"channel_shuffle(Tensor self, SymInt groups)", ChannelShuffle},
    {"native_channel_shuffle(Tensor self, SymInt groups)", ChannelShuffle},
    {"im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride)", Im2Col},
    {"col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride)",
     Col2Im},
};
#undef VEC
#undef NEAREST_VEC

}  // namespace

std::span<const Rule> ResampleRules() { return kRules; }

}  // namespace ferry::torch
