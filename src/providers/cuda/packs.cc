#include "providers/cuda/packs.h"

#include <algorithm>

#include "providers/cuda/chain.h"

namespace ferry::cuda {
namespace {

constexpr int kMostPacks = 8;  // of one row that a thread keeps in registers

constexpr char kNormalizeSource[] = R"(
typedef Pack<ELEMENT, WIDTH> Group;
__device__ inline float SumOfTeam(float x) {
#pragma unroll
  for (int step = (TEAM < 32 ? TEAM : 32) / 2; step > 0; step /= 2) x += __shfl_xor_sync(FULL_WARP, x, step);
#if TEAM > 32
  __shared__ float parts[TEAM / 32];
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = 0.0f;
#pragma unroll
  for (int i = 0; i < TEAM / 32; ++i) x += parts[i];
#endif
  return x;
}
extern "C" __global__ void NormalizePacks(const Group* x, const Group* scale, const Group* bias, Group* y, int64 rows,
                                          int32 packs, float epsilon) {
  const int teams = blockDim.x / TEAM, member = threadIdx.x % TEAM;
  const float count = float(packs) * WIDTH;
  for (int64 first = int64(blockIdx.x) * teams; first < rows; first += int64(gridDim.x) * teams) {
    const int64 row = first + threadIdx.x / TEAM;
    const bool inside = row < rows;
    float kept[KEPT][WIDTH];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
      const int i = member + k * TEAM;
      Group group = {};
      if (inside && i < packs) group = x[row * packs + i];
#pragma unroll
      for (int j = 0; j < WIDTH; ++j) sum += kept[k][j] = Load(group.at[j]);
    }
    const float mean = IS_CENTERED ? SumOfTeam(sum) / count : 0.0f;
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < KEPT; ++k)
      if (member + k * TEAM < packs)
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) squares += (kept[k][j] - mean) * (kept[k][j] - mean);
    const float factor = 1.0f / sqrtf(SumOfTeam(squares) / count + epsilon);
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
      const int i = member + k * TEAM;
      if (!inside || i >= packs) continue;
      Group by = {}, more = {}, made;
      if (HAS_SCALE) by = scale[i];
      if (HAS_BIAS) more = bias[i];
#pragma unroll
      for (int j = 0; j < WIDTH; ++j) {
        float v = (kept[k][j] - mean) * factor;
        if (HAS_SCALE) v *= Load(by.at[j]);
        if (HAS_BIAS) v += Load(more.at[j]);
        made.at[j] = Stored<ELEMENT>::From(v);
      }
      y[row * packs + i] = made;
    }
  }
}
)";

constexpr char kPoolSource[] = R"(
typedef Pack<ELEMENT, WIDTH> Group;
struct Axis { int32 input, output, kernel, stride, dilation, pad; };
struct Windows { int64 total; int32 packs; Axis y, x; };
extern "C" __global__ void PoolPacks(const Group* from, Group* to, const Windows pool) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < pool.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 pixel = i / pool.packs;
    const int32 pack = int32(i - pixel * pool.packs);
    const int64 line = pixel / pool.x.output;
    const int32 left = int32(pixel - line * pool.x.output) * pool.x.stride - pool.x.pad;
    const int64 image = line / pool.y.output;
    const int32 top = int32(line - image * pool.y.output) * pool.y.stride - pool.y.pad;
    const Group* base = from + image * pool.y.input * pool.x.input * pool.packs + pack;
    float joined[WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) joined[j] = IS_MAX ? __int_as_float(0xff800000) : 0.0f;
    int32 count = 0;
    for (int32 ky = 0; ky < pool.y.kernel; ++ky) {
      const int32 y = top + ky * pool.y.dilation;
      if (y < 0 || y >= pool.y.input) continue;
      for (int32 kx = 0; kx < pool.x.kernel; ++kx) {
        const int32 x = left + kx * pool.x.dilation;
        if (x < 0 || x >= pool.x.input) continue;
        const Group group = base[(int64(y) * pool.x.input + x) * pool.packs];
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
          const float v = Load(group.at[j]);
          if (IS_MAX) joined[j] = joined[j] > v || joined[j] != joined[j] ? joined[j] : v;
          else joined[j] += v;
        }
        ++count;
      }
    }
    Group made;
    const float share = INCLUDE_PADDING ? pool.y.kernel * pool.x.kernel : count;
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) made.at[j] = Stored<ELEMENT>::From(IS_MAX ? joined[j] : joined[j] / share);
    to[i] = made;
  }
}
)";

// The largest of bytes, four at once.
constexpr char kByteMaxSource[] = R"(
struct Axis { int32 input, output, kernel, stride, dilation, pad; };
struct Windows { int64 total; int32 packs; Axis y, x; };
extern "C" __global__ void PoolPacks(const int4* from, int4* to, const Windows pool) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < pool.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 pixel = i / pool.packs, line = pixel / pool.x.output, image = line / pool.y.output;
    const int32 left = int32(pixel - line * pool.x.output) * pool.x.stride - pool.x.pad;
    const int32 top = int32(line - image * pool.y.output) * pool.y.stride - pool.y.pad;
    const int4* base = from + image * pool.y.input * pool.x.input * pool.packs + (i - pixel * pool.packs);
    int4 most = make_int4(LEAST, LEAST, LEAST, LEAST);
    for (int32 ky = 0; ky < pool.y.kernel; ++ky) {
      const int32 y = top + ky * pool.y.dilation;
      if (y < 0 || y >= pool.y.input) continue;
#pragma unroll 3
      for (int32 kx = 0; kx < pool.x.kernel; ++kx) {
        const int32 x = left + kx * pool.x.dilation;
        if (x < 0 || x >= pool.x.input) continue;
        const int4 some = base[(int64(y) * pool.x.input + x) * pool.packs];
        most.x = MOST(most.x, some.x), most.y = MOST(most.y, some.y);
        most.z = MOST(most.z, some.z), most.w = MOST(most.w, some.w);
      }
    }
    to[i] = most;
  }
}
)";

struct Axis {
  int32_t input, output, kernel, stride, dilation, pad;
};
struct Windows {
  int64_t total;
  int32_t packs;
  Axis y, x;
};

bool IsByte(DType type) { return type == DType::kInt8 || type == DType::kUInt8; }
int WidthOf(DType type) { return type == DType::kFloat ? 4 : IsByte(type) ? 16 : 8; }

bool IsPacked(DType type, std::initializer_list<const Tensor*> tensors) {
  if (type != DType::kFloat && type != DType::kFloat16 && type != DType::kBFloat16 && !IsByte(type)) return false;
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor* tensor) {
    return !tensor || reinterpret_cast<uintptr_t>(tensor->address()) % 16 == 0;
  });
}

KernelSource NormalizeSource(DType type, int team, int kept, bool centered, bool scale, bool bias) {
  return {"NormalizePacks", Cat("#define TEAM ", team, "\n#define KEPT ", kept, "\n#define WIDTH ", WidthOf(type),
                                "\n#define ELEMENT ", TypeName(type), "\n#define IS_CENTERED ", centered,
                                "\n#define HAS_SCALE ", scale, "\n#define HAS_BIAS ", bias, kNormalizeSource)};
}

KernelSource PoolSource(DType type, const Pool& pool) {
  if (IsByte(type)) {
    const bool is_signed = type == DType::kInt8;
    return {"PoolPacks", Cat("#define LEAST ", is_signed ? "int(0x80808080)" : "0", "\n#define MOST ",
                             is_signed ? "__vmaxs4" : "__vmaxu4", kByteMaxSource)};
  }
  return {"PoolPacks", Cat("#define WIDTH ", WidthOf(type), "\n#define ELEMENT ", TypeName(type), "\n#define IS_MAX ",
                           pool.is_max, "\n#define INCLUDE_PADDING ", pool.include_padding, kPoolSource)};
}

// Part of a warp while that keeps little in each thread, else a warp, else a block.
int TeamFor(int64_t packs) {
  for (int team : {8, 16, 32})
    if (packs <= team * 4) return team;
  if (packs <= 32 * 6) return 32;
  return packs <= 128 * kMostPacks ? 128 : 256;
}

}  // namespace

bool NormalizePacks(const Device& device, int64_t count, float epsilon, bool centered, const Tensor& x,
                    const Tensor* scale, const Tensor* bias, Tensor& y) {
  const int width = WidthOf(x.dtype());
  if (IsByte(x.dtype()) || !IsPacked(x.dtype(), {&x, scale, bias, &y}) || count % width != 0 ||
      count > 256 * kMostPacks * width)
    return false;
  const int64_t packs = count / width, rows = x.size() / count;
  const int team = TeamFor(packs), kept = static_cast<int>((packs + team - 1) / team);
  const unsigned threads = team <= 128 ? 128 : 256;
  const int64_t teams = threads / static_cast<unsigned>(team), blocks = (rows + teams - 1) / teams;
  const int64_t most = int64_t{device.facts().multiprocessors} * 64;
  auto address = [](const Tensor* t) { return t ? t->address() : nullptr; };
  const std::string key =
      Cat("normalize packs ", x.dtype(), team, " ", kept, centered, scale != nullptr, bias != nullptr);
  Launch(device, FindKernel(device, key, [&] { return NormalizeSource(x.dtype(), team, kept, centered, scale, bias); }),
         {static_cast<unsigned>(std::min(blocks, most)), threads}, x.address(), address(scale), address(bias),
         y.address(), rows, static_cast<int32_t>(packs), epsilon);
  return true;
}

bool PoolPacks(const Device& device, const Pool& pool, const Tensor& x, Tensor& y) {
  const int width = WidthOf(x.dtype());
  if (!pool.channels_last || !IsPacked(x.dtype(), {&x, &y}) || pool.channels % width != 0) return false;
  if (IsByte(x.dtype()) && !pool.is_max) return false;
  for (const WindowAxis& axis : pool.axes)
    for (int64_t number : {axis.input, axis.output, axis.kernel, axis.stride, axis.dilation, axis.pad_begin})
      if (number < 0 || number > 1 << 20) return false;
  auto narrow = [](const WindowAxis& a) {
    return Axis{static_cast<int32_t>(a.input),  static_cast<int32_t>(a.output),   static_cast<int32_t>(a.kernel),
                static_cast<int32_t>(a.stride), static_cast<int32_t>(a.dilation), static_cast<int32_t>(a.pad_begin)};
  };
  const Windows windows{y.size() / width, static_cast<int32_t>(pool.channels / width), narrow(pool.axes[0]),
                        narrow(pool.axes[1])};
  Launch(device,
         FindKernel(device, Cat("pool packs ", x.dtype(), pool.is_max, pool.include_padding),
                    [&] { return PoolSource(x.dtype(), pool); }),
         GridFor(device, windows.total), x.address(), y.address(), windows);
  return true;
}

std::vector<KernelSource> PackSources() {
  Pool largest, mean;
  mean.is_max = false;
  return {NormalizeSource(DType::kFloat16, 16, 3, true, true, true),
          NormalizeSource(DType::kFloat, 128, 2, false, true, false),
          PoolSource(DType::kFloat16, largest),
          PoolSource(DType::kFloat, mean),
          PoolSource(DType::kInt8, largest),
          PoolSource(DType::kUInt8, largest)};
}

}  // namespace ferry::cuda
