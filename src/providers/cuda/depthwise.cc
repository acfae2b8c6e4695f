#include "providers/cuda/depthwise.h"

#include "base/text.h"

namespace ferry::cuda {
namespace {

constexpr char kSource[] = R"(
struct Image { int64 total; int32 channels, height, width, made_height, made_width, top, left; float low, high; };
typedef Pack<float, WIDTH> Group;
extern "C" __global__ void Depthwise(const float* x, const float* w, const float* bias, const float* sum, float* y,
                                     const Image image) {
  const int32 groups = image.channels / WIDTH;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < image.total; i += int64(gridDim.x) * blockDim.x) {
    const int32 c = int32(i % groups) * WIDTH;
    int64 rest = i / groups;
    const int32 ox = int32(rest % image.made_width);
    rest /= image.made_width;
    const int32 oy = int32(rest % image.made_height);
    const int64 n = rest / image.made_height;
    const float* from = x + n * image.height * image.width * image.channels + c;
    Group joined;
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) joined.at[k] = 0.0f;
    if (HAS_BIAS) joined = *reinterpret_cast<const Group*>(bias + c);
#pragma unroll
    for (int ky = 0; ky < KERNEL_Y; ++ky) {
      const int32 iy = oy * STRIDE_Y - image.top + ky * DILATION_Y;
      if (iy < 0 || iy >= image.height) continue;
#pragma unroll
      for (int kx = 0; kx < KERNEL_X; ++kx) {
        const int32 ix = ox * STRIDE_X - image.left + kx * DILATION_X;
        if (ix < 0 || ix >= image.width) continue;
        const Group a = *reinterpret_cast<const Group*>(from + (int64(iy) * image.width + ix) * image.channels);
        const Group b = *reinterpret_cast<const Group*>(w + (ky * KERNEL_X + kx) * image.channels + c);
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) joined.at[k] += a.at[k] * b.at[k];
      }
    }
    if (HAS_SUM) {
      const Group more = *reinterpret_cast<const Group*>(sum + i * WIDTH);
#pragma unroll
      for (int k = 0; k < WIDTH; ++k) joined.at[k] += more.at[k];
    }
#pragma unroll
    for (int k = 0; k < WIDTH; ++k)
      joined.at[k] = joined.at[k] < image.low ? image.low : joined.at[k] > image.high ? image.high : joined.at[k];
    *reinterpret_cast<Group*>(y + i * WIDTH) = joined;
  }
}
)";

struct Image {
  int64_t total;
  int32_t channels, height, width, made_height, made_width, top, left;
  float low, high;
};

}  // namespace

bool IsDepthwise(const ConvolutionShape& shape) {
  if (shape.dtype != DType::kFloat || shape.groups != shape.channels || shape.features != shape.channels) return false;
  for (const WindowAxis& axis : shape.axes)
    for (int64_t number : {axis.input, axis.output, axis.kernel, axis.stride, axis.dilation, axis.pad_begin})
      if (number > 1 << 20 || number < 0) return false;
  return shape.axes[0].kernel * shape.axes[1].kernel <= 81 && shape.channels <= 1 << 24;
}

KernelSource DepthwiseSource(const ConvolutionShape& shape, int width) {
  const WindowAxis &y = shape.axes[0], &x = shape.axes[1];
  return {"Depthwise", Cat("#define WIDTH ", width, "\n#define KERNEL_Y ", y.kernel, "\n#define KERNEL_X ", x.kernel,
                           "\n#define STRIDE_Y ", y.stride, "\n#define STRIDE_X ", x.stride, "\n#define DILATION_Y ",
                           y.dilation, "\n#define DILATION_X ", x.dilation, "\n#define HAS_BIAS ", shape.has_bias,
                           "\n#define HAS_SUM ", shape.has_sum, kSource)};
}

void ConvolveDepthwise(const Device& device, const ConvolutionShape& shape, const ConvolutionOperands& operands,
                       float low, float high) {
  const WindowAxis &y = shape.axes[0], &x = shape.axes[1];
  uintptr_t bits = 0;
  for (const std::byte* address :
       {operands.x, operands.w, operands.bias, operands.sum, static_cast<const std::byte*>(operands.y)})
    bits |= reinterpret_cast<uintptr_t>(address);
  const int width = shape.channels % 4 == 0 && bits % 16 == 0 ? 4 : 1;
  Image image{shape.batch * y.output * x.output * (shape.channels / width),
              static_cast<int32_t>(shape.channels),
              static_cast<int32_t>(y.input),
              static_cast<int32_t>(x.input),
              static_cast<int32_t>(y.output),
              static_cast<int32_t>(x.output),
              static_cast<int32_t>(y.pad_begin),
              static_cast<int32_t>(x.pad_begin),
              low,
              high};
  const std::string key = Cat("depthwise ", width, " ", y.kernel, " ", x.kernel, " ", y.stride, " ", x.stride, " ",
                              y.dilation, " ", x.dilation, shape.has_bias, shape.has_sum);
  const Function function = FindKernel(device, key, [&] { return DepthwiseSource(shape, width); });
  Launch(device, function, GridFor(device, image.total, 128), operands.x, operands.w, operands.bias, operands.sum,
         operands.y, image);
}

}  // namespace ferry::cuda
