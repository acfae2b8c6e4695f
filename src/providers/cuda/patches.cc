#include "providers/cuda/patches.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "providers/cuda/chain.h"
#include "providers/cuda/kernels.h"
#include "tensor/alignment.h"

namespace ferry::cuda {
namespace {

constexpr int64_t kFewChannels = 4, kMostBytes = int64_t{1} << 30;

constexpr char kSource[] = R"(
typedef Pack<ELEMENT, WIDTH> Group;
struct Image { int64 total; int32 height, width, made_height, made_width, top, left; };
extern "C" __global__ void Patches(const ELEMENT* x, Group* y, const Image image) {
  constexpr int kTaps = KERNEL_Y * KERNEL_X * CHANNELS, kPacks = (kTaps + WIDTH - 1) / WIDTH;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < image.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 pixel = i / kPacks;
    const int pack = int(i - pixel * kPacks);
    const int64 line = pixel / image.made_width;
    const int left = int(pixel - line * image.made_width) * STRIDE_X - image.left;
    const int64 n = line / image.made_height;
    const int top = int(line - n * image.made_height) * STRIDE_Y - image.top;
    const ELEMENT* from = x + n * image.height * image.width * CHANNELS;
    Group made;
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
      const int k = pack * WIDTH + j;
#if CHANNELS_FIRST
      const int c = k / (KERNEL_Y * KERNEL_X), tap = k % (KERNEL_Y * KERNEL_X);
#else
      const int c = k % CHANNELS, tap = k / CHANNELS;
#endif
      const int iy = top + tap / KERNEL_X * DILATION_Y, ix = left + tap % KERNEL_X * DILATION_X;
      const bool inside = k < kTaps && iy >= 0 && iy < image.height && ix >= 0 && ix < image.width;
#if CHANNELS_FIRST
      const int64 place = (int64(c) * image.height + iy) * image.width + ix;
#else
      const int64 place = (int64(iy) * image.width + ix) * CHANNELS + c;
#endif
      made.at[j] = inside ? from[place] : ELEMENT();
    }
    y[i] = made;
  }
}
)";

struct Image {
  int64_t total;
  int32_t height, width, made_height, made_width, top, left;
};

int64_t WidthOf(DType type) { return type == DType::kFloat ? 4 : 8; }

int64_t TapsOf(const ConvolutionShape& shape) { return shape.axes[0].kernel * shape.axes[1].kernel * shape.channels; }

bool IsApart(const WindowAxis& axis) {
  return axis.kernel == axis.stride && axis.pad_begin == 0 && axis.dilation == 1 &&
         axis.output * axis.stride <= axis.input;
}

KernelSource PatchSource(const ConvolutionShape& shape, bool channels_first) {
  const WindowAxis &y = shape.axes[0], &x = shape.axes[1];
  return {"Patches",
          Cat("#define ELEMENT ", TypeName(shape.dtype), "\n#define WIDTH ", WidthOf(shape.dtype),
              "\n#define CHANNELS ", shape.channels, "\n#define CHANNELS_FIRST ", channels_first, "\n#define KERNEL_Y ",
              y.kernel, "\n#define KERNEL_X ", x.kernel, "\n#define STRIDE_Y ", y.stride, "\n#define STRIDE_X ",
              x.stride, "\n#define DILATION_Y ", y.dilation, "\n#define DILATION_X ", x.dilation, kSource)};
}

// Windows side by side: a walk through axes.
void CopyApart(const Device& device, const ConvolutionShape& shape, bool channels_first, const std::byte* x,
               Tensor& y) {
  const WindowAxis &v = shape.axes[0], &h = shape.axes[1];
  const int64_t c = shape.channels, taps = TapsOf(shape), image = v.input * h.input * c;
  const int64_t rows[] = {v.output * h.output * taps, h.output * taps, taps};
  Walk walk;
  if (channels_first)
    walk = {{shape.batch, v.output, h.output, c, v.kernel, h.kernel},
            {image, v.stride * h.input, h.stride, v.input * h.input, h.input, 1},
            {rows[0], rows[1], rows[2], v.kernel * h.kernel, h.kernel, 1}};
  else
    walk = {{shape.batch, v.output, h.output, v.kernel, h.kernel * c},
            {image, v.stride * h.input * c, h.stride * c, h.input * c, 1},
            {rows[0], rows[1], rows[2], h.kernel * c, 1}};
  CopyWalk(device, std::move(walk), static_cast<size_t>(BitWidth(shape.dtype)) / 8, x, y.address());
}

}  // namespace

int64_t PatchPitch(const ConvolutionShape& shape) {
  const int64_t width = WidthOf(shape.dtype);
  return (TapsOf(shape) + width - 1) / width * width;
}

// A divisor of the batch where a large one fits, which leaves no smaller rest.
int64_t ImagesTogether(const ConvolutionShape& shape) {
  constexpr int64_t kCached = int64_t{32} << 20;
  const int64_t image = PatchPitch(shape) * BitWidth(shape.dtype) / 8 * shape.axes[0].output * shape.axes[1].output;
  const int64_t fit = std::clamp<int64_t>(kCached / image, 1, shape.batch);
  for (int64_t together = fit; together > fit / 2; --together)
    if (shape.batch % together == 0) return together;
  return fit;
}

bool TakesPatches(const ConvolutionShape& shape) {
  if (shape.dtype != DType::kFloat && shape.dtype != DType::kFloat16 && shape.dtype != DType::kBFloat16) return false;
  const WindowAxis &y = shape.axes[0], &x = shape.axes[1];
  const int64_t window = y.kernel * x.kernel;
  if (shape.groups != 1 || window <= 1 || shape.batch < 1 || shape.channels < 1) return false;
  for (const WindowAxis& axis : shape.axes)
    for (int64_t number : {axis.input, axis.output, axis.kernel, axis.stride, axis.dilation, axis.pad_begin})
      if (number < 0 || number > 1 << 20) return false;
  const bool apart = IsApart(y) && IsApart(x) && TapsOf(shape) == PatchPitch(shape);
  if (!apart && (shape.channels > kFewChannels || window > 121)) return false;
  const int64_t row_bytes = PatchPitch(shape) * BitWidth(shape.dtype) / 8, pixels = y.output * x.output;
  return pixels > 0 && row_bytes <= kMostBytes / pixels && row_bytes * pixels <= kMostBytes / shape.batch;
}

Tensor GatherPatches(const Device& device, const ConvolutionShape& shape, bool channels_first, const std::byte* x) {
  const WindowAxis &v = shape.axes[0], &h = shape.axes[1];
  const int64_t pitch = PatchPitch(shape), rows = shape.batch * v.output * h.output;
  Tensor patches(shape.dtype, {rows, pitch}, device.memory());
  if (IsApart(v) && IsApart(h) && pitch == TapsOf(shape)) {
    CopyApart(device, shape, channels_first, x, patches);
    return patches;
  }
  const Image image{patches.size() / WidthOf(shape.dtype), static_cast<int32_t>(v.input),
                    static_cast<int32_t>(h.input),         static_cast<int32_t>(v.output),
                    static_cast<int32_t>(h.output),        static_cast<int32_t>(v.pad_begin),
                    static_cast<int32_t>(h.pad_begin)};
  const std::string key = Cat("patches ", shape.dtype, channels_first, " ", shape.channels, " ", v.kernel, " ",
                              h.kernel, " ", v.stride, " ", h.stride, " ", v.dilation, " ", h.dilation);
  Launch(device, FindKernel(device, key, [&] { return PatchSource(shape, channels_first); }),
         GridFor(device, image.total), x, patches.address(), image);
  return patches;
}

Tensor PatchFilter(const Device& device, const ConvolutionShape& shape, bool channels_first, const Tensor& w) {
  const Tensor readable = Readable(w);
  const int64_t pitch = PatchPitch(shape), c = shape.channels, window = shape.axes[0].kernel * shape.axes[1].kernel;
  const size_t bytes = static_cast<size_t>(BitWidth(shape.dtype)) / 8;
  Tensor rows(shape.dtype, {shape.features, pitch});
  std::memset(rows.mutable_raw(), 0, rows.bytes());
  for (int64_t m = 0; m < shape.features; ++m)
    for (int64_t channel = 0; channel < c; ++channel)
      for (int64_t tap = 0; tap < window; ++tap) {
        const int64_t from = (m * c + channel) * window + tap;
        const int64_t to = m * pitch + (channels_first ? channel * window + tap : tap * c + channel);
        std::memcpy(rows.mutable_raw() + static_cast<size_t>(to) * bytes,
                    readable.raw() + static_cast<size_t>(from) * bytes, bytes);
      }
  return rows.In(device.memory());
}

std::vector<KernelSource> PatchSources() {
  ConvolutionShape shape;
  shape.channels = 3;
  shape.axes[0] = shape.axes[1] = {224, 112, 7, 2, 1, 3, 3};
  std::vector<KernelSource> sources{PatchSource(shape, true)};
  shape.dtype = DType::kFloat16;
  sources.push_back(PatchSource(shape, false));
  return sources;
}

}  // namespace ferry::cuda
