#include "providers/cuda/depthwise.h"

#include <cmath>

#include "base/text.h"
#include "providers/cuda/chain.h"

namespace ferry::cuda {
namespace {

// A thread makes TILE neighbours of one row, and every input that it reads serves all of them that it belongs to.
constexpr char kSource[] = R"(
struct Image {
  int64 total;
  int32 channels, height, width, made_height, made_width, strips, top, left;
  float low, high, factor;
};
typedef Pack<ELEMENT, WIDTH> Group;
#define SPAN ((TILE - 1) * STRIDE_X + (KERNEL_X - 1) * DILATION_X + 1)
extern "C" __global__ void __launch_bounds__(128) Depthwise(const ELEMENT* x, const ELEMENT* w, const ELEMENT* bias,
                                                            const ELEMENT* sum, ELEMENT* y, const Image image) {
  const int32 groups = image.channels / WIDTH;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < image.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 strip = i / groups;
    const int32 c = int32(i - strip * groups) * WIDTH;
    const int64 line = strip / image.strips;
    const int32 ox = int32(strip - line * image.strips) * TILE;
    const int64 n = line / image.made_height;
    const int32 oy = int32(line - n * image.made_height);
    const ELEMENT* from = x + n * image.height * image.width * image.channels + c;
    float joined[TILE][WIDTH];
    Group added = {};
    if (HAS_BIAS) added = *reinterpret_cast<const Group*>(bias + c);
#pragma unroll
    for (int t = 0; t < TILE; ++t)
#pragma unroll
      for (int k = 0; k < WIDTH; ++k) joined[t][k] = HAS_BIAS ? Load(added.at[k]) : 0.0f;
    const int32 first = ox * STRIDE_X - image.left;
#pragma unroll UNROLL_Y
    for (int ky = 0; ky < KERNEL_Y; ++ky) {
      const int32 iy = oy * STRIDE_Y - image.top + ky * DILATION_Y;
      if (iy < 0 || iy >= image.height) continue;
      const ELEMENT* row = from + int64(iy) * image.width * image.channels;
      float by[KERNEL_X][WIDTH];
#pragma unroll
      for (int kx = 0; kx < KERNEL_X; ++kx) {
        const Group b = *reinterpret_cast<const Group*>(w + (ky * KERNEL_X + kx) * image.channels + c);
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) by[kx][k] = Load(b.at[k]);
      }
#pragma unroll
      for (int s = 0; s < SPAN; ++s) {
        const int32 ix = first + s;
        Group a = {};
        if (ix >= 0 && ix < image.width) a = *reinterpret_cast<const Group*>(row + int64(ix) * image.channels);
#pragma unroll
        for (int t = 0; t < TILE; ++t) {
          const int step = s - t * STRIDE_X;
          if (step < 0 || step % DILATION_X != 0 || step / DILATION_X >= KERNEL_X) continue;
#pragma unroll
          for (int k = 0; k < WIDTH; ++k) joined[t][k] += Load(a.at[k]) * by[step / DILATION_X][k];
        }
      }
    }
#pragma unroll
    for (int t = 0; t < TILE; ++t) {
      if (ox + t >= image.made_width) continue;
      const int64 place = (line * image.made_width + ox + t) * image.channels + c;
      Group more = {}, made;
      if (HAS_SUM) more = *reinterpret_cast<const Group*>(sum + place);
#pragma unroll
      for (int k = 0; k < WIDTH; ++k) {
        float v = joined[t][k];
        if (HAS_SUM) v += Load(more.at[k]);
        v = v < image.low ? image.low : v > image.high ? image.high : v;
#if IS_SILU
        v = v / (1.0f + exp(-image.factor * v));
#elif IS_HARD_SWISH
        const float gate = v / 6.0f + 0.5f;
        v = v * (gate < 0.0f ? 0.0f : gate > 1.0f ? 1.0f : gate);
#endif
        made.at[k] = Stored<ELEMENT>::From(v);
      }
      *reinterpret_cast<Group*>(y + place) = made;
    }
  }
}
)";

struct Image {
  int64_t total;
  int32_t channels, height, width, made_height, made_width, strips, top, left;
  float low, high, factor;
};

// As many neighbours as registers hold, while the device still has enough threads to work.
int TileFor(const Device& device, const ConvolutionShape& shape, int width) {
  const WindowAxis &y = shape.axes[0], &x = shape.axes[1];
  if (x.dilation > 2 || x.kernel > 7 || width == 1) return 1;
  for (int tile = x.kernel > 3 ? 8 : 4; tile > 1; tile /= 2) {
    const int64_t threads = shape.batch * y.output * ((x.output + tile - 1) / tile) * (shape.channels / width);
    if (tile < 2 * x.output && threads >= int64_t{device.facts().multiprocessors} * 512) return tile;
  }
  return 1;
}

}  // namespace

bool IsDepthwise(const ConvolutionShape& shape) {
  if ((shape.dtype != DType::kFloat && shape.dtype != DType::kFloat16 && shape.dtype != DType::kBFloat16) ||
      shape.groups != shape.channels || shape.features != shape.channels)
    return false;
  for (const WindowAxis& axis : shape.axes)
    for (int64_t number : {axis.input, axis.output, axis.kernel, axis.stride, axis.dilation, axis.pad_begin})
      if (number > 1 << 20 || number < 0) return false;
  return shape.axes[0].kernel * shape.axes[1].kernel <= 81 && shape.channels <= 1 << 24;
}

KernelSource DepthwiseSource(const ConvolutionShape& shape, int width, int tile) {
  const WindowAxis &y = shape.axes[0], &x = shape.axes[1];
  return {"Depthwise", Cat("#define ELEMENT ", TypeName(shape.dtype), "\n#define IS_SILU ",
                           shape.after.kind == ActivationKind::kSilu, "\n#define IS_HARD_SWISH ",
                           shape.after.kind == ActivationKind::kHardSwish, "\n#define WIDTH ", width, "\n#define TILE ",
                           tile, "\n#define UNROLL_Y ", y.kernel <= 3 ? y.kernel : 1, "\n#define KERNEL_Y ", y.kernel,
                           "\n#define KERNEL_X ", x.kernel, "\n#define STRIDE_Y ", y.stride, "\n#define STRIDE_X ",
                           x.stride, "\n#define DILATION_Y ", y.dilation, "\n#define DILATION_X ", x.dilation,
                           "\n#define HAS_BIAS ", shape.has_bias, "\n#define HAS_SUM ", shape.has_sum, kSource)};
}

bool DepthwiseApplies(const Activation& activation) {
  return IsLimit(activation.kind) || activation.kind == ActivationKind::kSilu ||
         activation.kind == ActivationKind::kHardSwish;
}

void ConvolveDepthwise(const Device& device, const ConvolutionShape& shape, const ConvolutionOperands& operands) {
  float low = -INFINITY, high = INFINITY;
  if (shape.after.kind == ActivationKind::kRelu) low = 0;
  if (shape.after.kind == ActivationKind::kClip) low = shape.after.alpha, high = shape.after.beta;
  const WindowAxis &y = shape.axes[0], &x = shape.axes[1];
  uintptr_t bits = 0;
  for (const std::byte* address :
       {operands.x, operands.w, operands.bias, operands.sum, static_cast<const std::byte*>(operands.y)})
    bits |= reinterpret_cast<uintptr_t>(address);
  const int most = shape.dtype == DType::kFloat || x.kernel > 3 ? 4 : 8;
  const int width = shape.channels % most == 0 && bits % 16 == 0 ? most : 1;
  const int tile = TileFor(device, shape, width);
  const int64_t strips = (x.output + tile - 1) / tile;
  Image image{shape.batch * y.output * strips * (shape.channels / width),
              static_cast<int32_t>(shape.channels),
              static_cast<int32_t>(y.input),
              static_cast<int32_t>(x.input),
              static_cast<int32_t>(y.output),
              static_cast<int32_t>(x.output),
              static_cast<int32_t>(strips),
              static_cast<int32_t>(y.pad_begin),
              static_cast<int32_t>(x.pad_begin),
              low,
              high,
              shape.after.alpha};
  const std::string key =
      Cat("depthwise ", shape.dtype, static_cast<int>(shape.after.kind), " ", width, " ", tile, " ", y.kernel, " ",
          x.kernel, " ", y.stride, " ", x.stride, " ", y.dilation, " ", x.dilation, shape.has_bias, shape.has_sum);
  const Function function = FindKernel(device, key, [&] { return DepthwiseSource(shape, width, tile); });
  Launch(device, function, GridFor(device, image.total, 128), operands.x, operands.w, operands.bias, operands.sum,
         operands.y, image);
}

}  // namespace ferry::cuda
