#include "providers/cuda/kernels_bytes.h"

#include <algorithm>

#include "providers/cuda/chain.h"

namespace ferry::cuda {
namespace {

constexpr char kPadSource[] = R"(
struct PaddedBytes {
  int64 batch, channels, height, width, made_channels, made_height, made_width, top, left;
  bool channels_first; uint8 fill;
};
extern "C" __global__ void PadBytes(const uint8* x, uint32* to, const PaddedBytes how) {
  const INDEX groups = how.made_channels / 4, total = how.batch * how.made_height * how.made_width * groups;
  for (INDEX i = INDEX(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += INDEX(gridDim.x) * blockDim.x) {
    const INDEX pixel = i / groups, line = pixel / INDEX(how.made_width), image = line / INDEX(how.made_height);
    const int64 top = int64(line - image * how.made_height) - how.top;
    const int64 left = int64(pixel - line * how.made_width) - how.left;
    const bool inside = top >= 0 && top < how.height && left >= 0 && left < how.width;
    uint32 four = 0;
    for (int j = 0; j < 4; ++j) {
      const int64 c = int64(i - pixel * groups) * 4 + j;
      uint32 byte = how.fill;
      if (inside && c < how.channels)
        byte = x[how.channels_first ? ((int64(image) * how.channels + c) * how.height + top) * how.width + left
                                    : ((int64(image) * how.height + top) * how.width + left) * how.channels + c];
      four |= byte << (8 * j);
    }
    to[i] = four;
  }
}
)";

constexpr char kDirectSource[] = R"(
struct Axis { int64 input, output, kernel, stride, dilation, pad; };
struct DirectBytes {
  int64 total, channels, features, group_channels, group_features, input_pixels, output_pixels;
  int64 channel_step, pixel_step, made_channel_step, made_pixel_step;
  Axis axes[3];
};
extern "C" __global__ void DirectBytesConvolution(const X_TYPE* x, const int8* w, const float* factor, const int* bias,
                                                  const float* shift, void* y, const DirectBytes how,
                                                  const AfterBytes after) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < how.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 feature = i % how.features, pixel = i / how.features % how.output_pixels;
    const int64 image = i / how.features / how.output_pixels;
    const Axis &z = how.axes[0], &v = how.axes[1], &h = how.axes[2];
    const int64 left = pixel % h.output * h.stride - h.pad, top = pixel / h.output % v.output * v.stride - v.pad;
    const int64 front = pixel / h.output / v.output * z.stride - z.pad, taps = z.kernel * v.kernel * h.kernel;
    const X_TYPE* from = x + image * how.channels * how.input_pixels +
                         feature / how.group_features * how.group_channels * how.channel_step;
    const int8* weight = w + feature * how.group_channels * taps;
    uint32 sum = bias ? uint32(bias[feature]) : 0;
    for (int64 tap = 0; tap < taps; ++tap) {
      const int64 at_x = left + tap % h.kernel * h.dilation, at_y = top + tap / h.kernel % v.kernel * v.dilation;
      const int64 at_z = front + tap / h.kernel / v.kernel * z.dilation;
      if (at_x < 0 || at_x >= h.input || at_y < 0 || at_y >= v.input || at_z < 0 || at_z >= z.input) continue;
      const int64 place = ((at_z * v.input + at_y) * h.input + at_x) * how.pixel_step;
      for (int64 c = 0; c < how.group_channels; ++c)
        sum += uint32((int(from[place + c * how.channel_step]) - after.x_zero) * int(weight[c * taps + tap]));
    }
    const float value = fmaf(float(int(sum)), factor[feature], shift ? shift[feature] : 0.0f);
    const int64 made = image * how.features * how.output_pixels + pixel * how.made_pixel_step +
                       feature * how.made_channel_step;
    if (after.is_float) static_cast<float*>(y)[made] = value;
    else static_cast<uint8*>(y)[made] = uint8(LevelOf(value, after));
  }
}
)";

constexpr char kDepthwiseSource[] = R"(
struct Axis { int32 input, output, kernel, stride, dilation, pad; };
struct Windows { int64 total; int32 channels; Axis y, x; };
extern "C" __global__ void DepthwiseBytes(const uint32* x, const uint32* w, const float* factor, const int* bias,
                                          const float* shift, void* y, const Windows how, const AfterBytes after) {
  const int groups = how.channels / 4;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < how.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 pixel = i / groups, line = pixel / how.x.output, image = line / how.y.output;
    const int group = int(i - pixel * groups);
    const int left = int(pixel - line * how.x.output) * how.x.stride - how.x.pad;
    const int top = int(line - image * how.y.output) * how.y.stride - how.y.pad;
    const uint32* from = x + image * how.y.input * how.x.input * groups + group;
    int sums[4] = {};
    for (int ky = 0; ky < how.y.kernel; ++ky) {
      const int at_y = top + ky * how.y.dilation;
      if (at_y < 0 || at_y >= how.y.input) continue;
#pragma unroll 3
      for (int kx = 0; kx < how.x.kernel; ++kx) {
        const int at_x = left + kx * how.x.dilation;
        if (at_x < 0 || at_x >= how.x.input) continue;
        const uint32 four = from[(int64(at_y) * how.x.input + at_x) * groups];
        const uint32 weights = w[(ky * how.x.kernel + kx) * groups + group];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sums[j] += (int(X_TYPE(four >> (8 * j))) - after.x_zero) * int(int8(weights >> (8 * j)));
      }
    }
    uint32 made = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int channel = group * 4 + j;
      const int whole = int(uint32(sums[j]) + uint32(bias ? bias[channel] : 0));
      const float value = fmaf(float(whole), factor[channel], shift ? shift[channel] : 0.0f);
      if (after.is_float) static_cast<float*>(y)[i * 4 + j] = value;
      else made |= uint32(LevelOf(value, after) & 255) << (8 * j);
    }
    if (!after.is_float) static_cast<uint32*>(y)[i] = made;
  }
}
)";

constexpr char kAddSource[] = R"(
extern "C" __global__ void AddBytes(const A_TYPE* a, const B_TYPE* b, uint8* y, int64 total, const AfterBytes after) {
  const int64 packs = IS_ALIGNED ? total / 4 : 0, step = int64(gridDim.x) * blockDim.x;
  const int64 first = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64 i = first; i < packs; i += step) {
    const Pack<A_TYPE, 4> left = reinterpret_cast<const Pack<A_TYPE, 4>*>(a)[i];
    const Pack<B_TYPE, 4> right = reinterpret_cast<const Pack<B_TYPE, 4>*>(b)[i];
    Pack<uint8, 4> made;
    for (int j = 0; j < 4; ++j) made.at[j] = uint8(SumOfLevels(float(left.at[j]), float(right.at[j]), after));
    reinterpret_cast<Pack<uint8, 4>*>(y)[i] = made;
  }
  for (int64 i = packs * 4 + first; i < total; i += step) y[i] = uint8(SumOfLevels(float(a[i]), float(b[i]), after));
}
)";

constexpr char kLookUpSource[] = R"(
extern "C" __global__ void LookUpBytes(const uint8* x, const uint8* table, uint8* y, int64 total) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += int64(gridDim.x) * blockDim.x)
    y[i] = table[x[i]];
}
)";

constexpr char kMeanSource[] = R"(
struct ByteMean { int64 total, channels, pixels, channel_step, pixel_step; float factor; };
extern "C" __global__ void AverageBytes(const X_TYPE* x, uint8* y, const ByteMean how, const AfterBytes after) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < how.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 image = i / how.channels;
    const X_TYPE* from = x + image * how.channels * how.pixels + (i - image * how.channels) * how.channel_step;
    int sum = 0;
#pragma unroll 16
    for (int64 p = 0; p < how.pixels; ++p) sum += int(from[p * how.pixel_step]) - after.x_zero;
    y[i] = uint8(LevelOf(float(sum) * how.factor, after));
  }
}
)";

KernelSource WithType(const char* name, DType type, const char* text) {
  return {name, Cat("#define X_TYPE ", TypeName(type), kAfterBytesSource, text)};
}

// Division of fewer bits is several times as fast.
KernelSource PadSource(bool few) { return {"PadBytes", Cat("#define INDEX ", few ? "uint32" : "uint64", kPadSource)}; }

KernelSource AddSource(DType a, DType b, bool aligned) {
  return {"AddBytes", Cat("#define A_TYPE ", TypeName(a), "\n#define B_TYPE ", TypeName(b), "\n#define IS_ALIGNED ",
                          aligned, kAfterBytesSource, kAddSource)};
}

}  // namespace

void PadBytes(const Device& device, const PaddedBytes& how, const std::byte* x, std::byte* y) {
  const int64_t groups = how.batch * how.made_height * how.made_width * how.made_channels / 4;
  const bool few = groups < int64_t{1} << 30;
  Launch(device, FindKernel(device, Cat("pad bytes ", few), [&] { return PadSource(few); }), GridFor(device, groups), x,
         y, how);
}

void ConvolveBytesDirectly(const Device& device, const DirectBytes& how, DType x_type, const AfterBytes& after,
                           const Tensor& w, const ByteOperands& operands) {
  const Function function = FindKernel(device, Cat("direct bytes ", x_type),
                                       [&] { return WithType("DirectBytesConvolution", x_type, kDirectSource); });
  Launch(device, function, GridFor(device, how.total), operands.x, w.address(), operands.factor, operands.bias,
         operands.shift, operands.y, how, after);
}

void ConvolveBytesDepthwise(const Device& device, const ByteWindows& windows, DType x_type, const AfterBytes& after,
                            const Tensor& w, const ByteOperands& operands) {
  struct Axis {
    int32_t input, output, kernel, stride, dilation, pad;
  };
  struct {
    int64_t total;
    int32_t channels;
    Axis y, x;
  } how{};
  auto narrow = [](const WindowAxis& a) {
    return Axis{static_cast<int32_t>(a.input),  static_cast<int32_t>(a.output),   static_cast<int32_t>(a.kernel),
                static_cast<int32_t>(a.stride), static_cast<int32_t>(a.dilation), static_cast<int32_t>(a.pad_begin)};
  };
  how.y = narrow(windows.axes[0]), how.x = narrow(windows.axes[1]);
  how.channels = static_cast<int32_t>(windows.channels);
  how.total = windows.batch * windows.axes[0].output * windows.axes[1].output * windows.channels / 4;
  const Function function = FindKernel(device, Cat("depthwise bytes ", x_type),
                                       [&] { return WithType("DepthwiseBytes", x_type, kDepthwiseSource); });
  Launch(device, function, GridFor(device, how.total), operands.x, w.address(), operands.factor, operands.bias,
         operands.shift, operands.y, how, after);
}

void AddBytes(const Device& device, const AfterBytes& sum, const Tensor& a, const Tensor& b, Tensor& y) {
  const bool aligned = a.IsAligned(4) && b.IsAligned(4) && y.IsAligned(4);
  const Function function = FindKernel(device, Cat("add bytes ", a.dtype(), b.dtype(), aligned),
                                       [&] { return AddSource(a.dtype(), b.dtype(), aligned); });
  Launch(device, function, GridFor(device, y.size() / (aligned ? 4 : 1)), a.address(), b.address(), y.address(),
         y.size(), sum);
}

void LookUpBytes(const Device& device, const Tensor& x, const Tensor& table, Tensor& y) {
  Launch(device,
         FindKernel(device, "look up bytes",
                    [] {
                      return KernelSource{"LookUpBytes", kLookUpSource};
                    }),
         GridFor(device, y.size()), x.address(), table.address(), y.address(), y.size());
}

void AverageBytes(const Device& device, const ByteMean& mean, DType x_type, const AfterBytes& after, const std::byte* x,
                  std::byte* y) {
  const Function function =
      FindKernel(device, Cat("average bytes ", x_type), [&] { return WithType("AverageBytes", x_type, kMeanSource); });
  Launch(device, function, GridFor(device, mean.total, 64), x, y, mean, after);
}

std::vector<KernelSource> ByteSources() {
  std::vector<KernelSource> sources = ByteConvolutionSources();
  sources.push_back(PadSource(true));
  sources.push_back(PadSource(false));
  sources.push_back(WithType("DirectBytesConvolution", DType::kUInt8, kDirectSource));
  sources.push_back(WithType("DepthwiseBytes", DType::kInt8, kDepthwiseSource));
  sources.push_back(AddSource(DType::kUInt8, DType::kInt8, true));
  sources.push_back({"LookUpBytes", kLookUpSource});
  sources.push_back(WithType("AverageBytes", DType::kUInt8, kMeanSource));
  return sources;
}

}  // namespace ferry::cuda
