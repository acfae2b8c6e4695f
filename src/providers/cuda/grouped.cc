#include "providers/cuda/grouped.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "providers/cuda/chain.h"

namespace ferry::cuda {
namespace {

constexpr int kBlocks = 4;  // of 8 features that a warp makes at once

// A warp keeps the weights of its features and walks through the pixels, 16 at a time. Thread 4·g + t of it holds
// pixels g and g+8 and, of each, inputs 2t and 2t+1 and features 2t and 2t+1. TF32 takes inputs in the order
// 0 2 4 6 1 3 5 7 on both sides, so that a thread's two lie side by side.
constexpr char kSource[] = R"(
struct Image {
  int64 pixels;
  int32 channels, height, width, made_height, made_width, top, left;
  float low, high;
};
#define TAPS (KERNEL_Y * KERNEL_X)
#define GROUP (DEEP * 8)
#if IS_FLOAT
#define PARTS 2
__device__ inline uint32 Rounded(float x) { uint32 y; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x)); return y; }
__device__ inline void Multiply(float* c, const uint32* a, const uint32* b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[2]), "r"(a[1]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void Read(uint32* to, const ELEMENT* from) {
  const float2 pair = *reinterpret_cast<const float2*>(from);
  to[0] = Rounded(pair.x);
  to[1] = Rounded(pair.y);
}
#else
#define PARTS 1
__device__ inline void Multiply(float* c, const uint32* a, const uint32* b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." MMA_TYPE "." MMA_TYPE ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}
__device__ inline void Read(uint32* to, const ELEMENT* from) { to[0] = *reinterpret_cast<const uint32*>(from); }
#endif
extern "C" __global__ void __launch_bounds__(128) Grouped(const ELEMENT* x, const ELEMENT* w, const ELEMENT* bias,
                                                          ELEMENT* y, const Image image) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int32 first = blockIdx.y * BLOCKS, blocks = min(BLOCKS, image.channels / 8 - first);
  uint32 by[BLOCKS][TAPS * DEEP][PARTS];
  Pack<ELEMENT, 2> added[BLOCKS] = {};
#pragma unroll
  for (int b = 0; b < BLOCKS; ++b)
    if (b < blocks) {
      const ELEMENT* from = w + int64((first + b) * 8 + g) * TAPS * GROUP + 2 * t;
#pragma unroll
      for (int i = 0; i < TAPS * DEEP; ++i) Read(by[b][i], from + i * 8);
      if (HAS_BIAS) added[b] = *reinterpret_cast<const Pack<ELEMENT, 2>*>(bias + (first + b) * 8 + 2 * t);
    }
  const int64 step = int64(gridDim.x) * (blockDim.x / 32) * 16;
  for (int64 base = (int64(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32) * 16; base < image.pixels; base += step) {
    int32 top[2], left[2];
    const ELEMENT* from[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64 pixel = min(base + g + 8 * r, image.pixels - 1), line = pixel / image.made_width;
      const int64 n = line / image.made_height;
      left[r] = int32(pixel - line * image.made_width) * STRIDE_X - image.left;
      top[r] = int32(line - n * image.made_height) * STRIDE_Y - image.top;
      from[r] = x + n * image.height * image.width * image.channels + 2 * t;
    }
    float made[BLOCKS][4];
#pragma unroll
    for (int b = 0; b < BLOCKS; ++b)
#pragma unroll
      for (int k = 0; k < 4; ++k) made[b][k] = Load(added[b].at[k % 2]);
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
      const ELEMENT* at[2];
      bool inside[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int32 iy = top[r] + tap / KERNEL_X * DILATION_Y, ix = left[r] + tap % KERNEL_X * DILATION_X;
        inside[r] = iy >= 0 && iy < image.height && ix >= 0 && ix < image.width;
        at[r] = from[r] + (int64(iy) * image.width + ix) * image.channels;
      }
#pragma unroll
      for (int b = 0; b < BLOCKS; ++b)
        if (b < blocks)
#pragma unroll
          for (int d = 0; d < DEEP; ++d) {
            uint32 a[2 * PARTS] = {};
#pragma unroll
            for (int r = 0; r < 2; ++r)
              if (inside[r]) Read(a + r * PARTS, at[r] + (first + b) / DEEP * GROUP + d * 8);
            Multiply(made[b], a, by[b][tap * DEEP + d]);
          }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64 pixel = base + g + 8 * r;
      if (pixel >= image.pixels) continue;
#pragma unroll
      for (int b = 0; b < BLOCKS; ++b)
        if (b < blocks) {
          Pack<ELEMENT, 2> pair;
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const float v = made[b][2 * r + k];
            pair.at[k] = Stored<ELEMENT>::From(v < image.low ? image.low : v > image.high ? image.high : v);
          }
          *reinterpret_cast<Pack<ELEMENT, 2>*>(y + pixel * image.channels + (first + b) * 8 + 2 * t) = pair;
        }
    }
  }
}
)";

struct Image {
  int64_t pixels;
  int32_t channels, height, width, made_height, made_width, top, left;
  float low, high;
};

KernelSource GroupedSource(const ConvolutionShape& shape) {
  const WindowAxis &y = shape.axes[0], &x = shape.axes[1];
  return {"Grouped", Cat("#define ELEMENT ", TypeName(shape.dtype), "\n#define IS_FLOAT ", shape.dtype == DType::kFloat,
                         "\n#define MMA_TYPE \"", shape.dtype == DType::kFloat16 ? "f16" : "bf16",
                         "\"\n#define BLOCKS ", kBlocks, "\n#define DEEP ", shape.channels / shape.groups / 8,
                         "\n#define KERNEL_Y ", y.kernel, "\n#define KERNEL_X ", x.kernel, "\n#define STRIDE_Y ",
                         y.stride, "\n#define STRIDE_X ", x.stride, "\n#define DILATION_Y ", y.dilation,
                         "\n#define DILATION_X ", x.dilation, "\n#define HAS_BIAS ", shape.has_bias, kSource)};
}

}  // namespace

bool IsGrouped(const ConvolutionShape& shape, int compute_major) {
  const bool small = shape.dtype == DType::kFloat16 || shape.dtype == DType::kBFloat16;
  if (compute_major < 8 || (!small && !(shape.dtype == DType::kFloat && shape.tf32))) return false;
  if (shape.groups < 2 || shape.channels != shape.features || shape.channels % shape.groups != 0 || shape.has_sum)
    return false;
  const int64_t group = shape.channels / shape.groups, taps = shape.axes[0].kernel * shape.axes[1].kernel;
  if ((group != 8 && group != 16) || taps < 1 || taps * group > 9 * (small ? 16 : 8)) return false;
  if (shape.after.kind != ActivationKind::kNone && !IsLimit(shape.after.kind)) return false;
  for (const WindowAxis& axis : shape.axes)
    for (int64_t number : {axis.input, axis.output, axis.kernel, axis.stride, axis.dilation, axis.pad_begin})
      if (number < 0 || number > 1 << 20) return false;
  return shape.channels <= 1 << 16 && shape.batch >= 1 && shape.batch <= 1 << 20;
}

void ConvolveGrouped(const Device& device, const ConvolutionShape& shape, const ConvolutionOperands& operands) {
  const WindowAxis &y = shape.axes[0], &x = shape.axes[1];
  float low = -INFINITY, high = INFINITY;
  if (shape.after.kind == ActivationKind::kRelu) low = 0;
  if (shape.after.kind == ActivationKind::kClip) low = shape.after.alpha, high = shape.after.beta;
  const Image image{shape.batch * y.output * x.output,
                    static_cast<int32_t>(shape.channels),
                    static_cast<int32_t>(y.input),
                    static_cast<int32_t>(x.input),
                    static_cast<int32_t>(y.output),
                    static_cast<int32_t>(x.output),
                    static_cast<int32_t>(y.pad_begin),
                    static_cast<int32_t>(x.pad_begin),
                    low,
                    high};
  const std::string key = Cat("grouped ", shape.dtype, shape.channels / shape.groups, " ", y.kernel, " ", x.kernel, " ",
                              y.stride, " ", x.stride, " ", y.dilation, " ", x.dilation, shape.has_bias);
  const int64_t across = (shape.channels / 8 + kBlocks - 1) / kBlocks, tiles = (image.pixels + 63) / 64;
  const int64_t most = std::max<int64_t>(1, int64_t{device.facts().multiprocessors} * 16 / across);
  Grid grid{static_cast<unsigned>(std::min(tiles, most)), 128, 0, static_cast<unsigned>(across)};
  Launch(device, FindKernel(device, key, [&] { return GroupedSource(shape); }), grid, operands.x, operands.w,
         operands.bias, operands.y, image);
}

std::vector<KernelSource> GroupedSources() {
  std::vector<KernelSource> sources;
  for (DType type : {DType::kFloat, DType::kFloat16, DType::kBFloat16}) {
    ConvolutionShape shape;
    shape.dtype = type;
    shape.has_bias = type != DType::kFloat;
    shape.channels = shape.features = 48;
    shape.groups = type == DType::kBFloat16 ? 3 : 6;
    shape.axes[0] = shape.axes[1] = {56, 28, 3, 2, 1, 1, 1};
    sources.push_back(GroupedSource(shape));
  }
  return sources;
}

}  // namespace ferry::cuda
