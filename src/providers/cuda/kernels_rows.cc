#include <algorithm>

#include "providers/cuda/chain.h"
#include "providers/cuda/depthwise.h"
#include "providers/cuda/few_rows.h"
#include "providers/cuda/flash.h"
#include "providers/cuda/grouped.h"
#include "providers/cuda/join_rows.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/packs.h"
#include "providers/cuda/patches.h"
#include "providers/cuda/product.h"
#include "providers/cuda/rotary.h"

namespace ferry::cuda {

std::vector<KernelSource> MoveSources();
std::vector<KernelSource> LayoutSources();
std::vector<KernelSource> IndexSources();
std::vector<KernelSource> FillSources();
std::vector<KernelSource> RecurrentSources();
std::vector<KernelSource> ChannelSources();
std::vector<KernelSource> QuantizedSources();
std::vector<KernelSource> ByteSources();

namespace {

// Sums and maxima over a team of TEAM threads: part of a warp, a warp, or a block of warps.
constexpr char kTeam[] = R"(
template <class T, class Join> __device__ inline T JoinTeam(T x, Join join) {
#pragma unroll
  for (int step = (TEAM < 32 ? TEAM : 32) / 2; step > 0; step /= 2) x = join(x, __shfl_xor_sync(FULL_WARP, x, step));
  if (TEAM <= 32) return x;
  __shared__ T parts[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __syncthreads();
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  x = parts[0];
  for (int i = 1; i < TEAM / 32; ++i) x = join(x, parts[i]);
  return x;
}
struct Plus { template <class T> __device__ T operator()(T a, T b) const { return a + b; } };
struct Times { template <class T> __device__ T operator()(T a, T b) const { return a * b; } };
struct Larger { template <class T> __device__ T operator()(T a, T b) const { return a > b || a != a ? a : b; } };
struct Smaller { template <class T> __device__ T operator()(T a, T b) const { return a < b || a != a ? a : b; } };
template <class T> __device__ inline T Infinity() { return T(__longlong_as_double(0x7ff0000000000000ll)); }
)";

// Each of `rows` results joins `count` elements; both are found by walking axes.
constexpr char kReduceSource[] = R"(
struct Axes { int64 rows, count; int32 kept, gone; int64 kept_dims[8], kept_strides[8], gone_dims[8], gone_strides[8]; };
__device__ inline int64 PlaceOf(int64 i, int rank, const int64* dims, const int64* strides) {
  int64 place = 0;
  for (int axis = rank - 1; axis > 0; --axis) {
    place += i % dims[axis] * strides[axis];
    i /= dims[axis];
  }
  return place + i * strides[0];
}
extern "C" __global__ void Reduce(const ELEMENT* x, ELEMENT* y, const Axes axes) {
  const int teams = blockDim.x / TEAM, member = threadIdx.x % TEAM;
  for (int64 first = int64(blockIdx.x) * teams; first < axes.rows; first += int64(gridDim.x) * teams) {
    const int64 row = first + threadIdx.x / TEAM;
    const bool inside = row < axes.rows;
    const int64 base = inside ? PlaceOf(row, axes.kept, axes.kept_dims, axes.kept_strides) : 0;
    COMPUTE largest = COMPUTE(0);
    if (IS_LOG_SUM_EXP) {
      largest = -Infinity<COMPUTE>();
      for (int64 i = member; inside && i < axes.count; i += TEAM)
        largest = Larger()(largest, COMPUTE(Load(x[base + PlaceOf(i, axes.gone, axes.gone_dims, axes.gone_strides)])));
      largest = JoinTeam(largest, Larger());
      if (largest - largest != COMPUTE(0)) largest = COMPUTE(0);
    }
    COMPUTE joined = FIRST;
    for (int64 i = member; inside && i < axes.count; i += TEAM) {
      const COMPUTE v = COMPUTE(Load(x[base + PlaceOf(i, axes.gone, axes.gone_dims, axes.gone_strides)]));
      joined = JOIN()(joined, COMPUTE(EACH));
    }
    joined = JoinTeam(joined, JOIN());
    const COMPUTE count = COMPUTE(axes.count);
    if (inside && member == 0) y[row] = Stored<ELEMENT>::From(COMPUTE(LAST));
  }
}
)";

struct Axes {
  int64_t rows, count;
  int32_t kept, gone;
  int64_t kept_dims[8], kept_strides[8], gone_dims[8], gone_strides[8];
};

// [outer, count, inner] to [outer, inner]: neighbouring threads read neighbouring columns, warps share the rows.
constexpr char kReduceColumnsSource[] = R"(
extern "C" __global__ void ReduceColumns(const ELEMENT* x, ELEMENT* y, int64 outer, int64 rows, int64 inner) {
  __shared__ COMPUTE parts[WARPS][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64 groups = (inner + 31) / 32;
  for (int64 block = blockIdx.x; block < outer * groups; block += gridDim.x) {
    const int64 base = block / groups * rows * inner, column = block % groups * 32 + lane;
    COMPUTE joined = FIRST;
    if (column < inner) {
#pragma unroll 4
      for (int64 row = warp; row < rows; row += WARPS) {
        const COMPUTE v = COMPUTE(Load(x[base + row * inner + column]));
        joined = JOIN()(joined, COMPUTE(EACH));
      }
    }
    __syncthreads();
    parts[warp][lane] = joined;
    __syncthreads();
    if (warp == 0 && column < inner) {
      for (int i = 1; i < WARPS; ++i) joined = JOIN()(joined, parts[i][lane]);
      const COMPUTE count = COMPUTE(rows);
      y[block / groups * inner + column] = Stored<ELEMENT>::From(COMPUTE(LAST));
    }
  }
}
)";

struct ReductionText {
  const char *join, *first, *each, *last;
};

ReductionText TextOf(Reduction reduction, DType type) {
  const bool floats = IsFloating(type);
  switch (reduction) {
    case Reduction::kMean: return {"Plus", "COMPUTE(0)", "v", "joined / count"};
    case Reduction::kMax: return {"Larger", floats ? "-Infinity<COMPUTE>()" : "COMPUTE(Load(x[base]))", "v", "joined"};
    case Reduction::kMin: return {"Smaller", floats ? "Infinity<COMPUTE>()" : "COMPUTE(Load(x[base]))", "v", "joined"};
    case Reduction::kProd: return {"Times", "COMPUTE(1)", "v", "joined"};
    case Reduction::kL1: return {"Plus", "COMPUTE(0)", "v < COMPUTE(0) ? -v : v", "joined"};
    case Reduction::kL2: return {"Plus", "COMPUTE(0)", "v * v", "sqrt(joined)"};
    case Reduction::kSumSquare: return {"Plus", "COMPUTE(0)", "v * v", "joined"};
    case Reduction::kLogSum: return {"Plus", "COMPUTE(0)", "v", "log(joined)"};
    case Reduction::kLogSumExp: return {"Plus", "COMPUTE(0)", "exp(v - largest)", "log(joined) + largest"};
    case Reduction::kSum: break;
  }
  return {"Plus", "COMPUTE(0)", "v", "joined"};
}

KernelSource ReduceSource(Reduction reduction, DType type, int team) {
  const ReductionText text = TextOf(reduction, type);
  return {"Reduce", Cat("#define TEAM ", team, "\n#define ELEMENT ", TypeName(type), "\n#define COMPUTE ",
                        ComputeTypeName(type), "\n#define IS_LOG_SUM_EXP ", reduction == Reduction::kLogSumExp,
                        "\n#define JOIN ", text.join, "\n#define FIRST ", text.first, "\n#define EACH ", text.each,
                        "\n#define LAST ", text.last, kTeam, kReduceSource)};
}

constexpr unsigned kColumnWarps = 16;

KernelSource ReduceColumnsSource(Reduction reduction, DType type) {
  const ReductionText text = TextOf(reduction, type);
  return {"ReduceColumns",
          Cat("#define TEAM 32\n#define WARPS ", kColumnWarps, "\n#define ELEMENT ", TypeName(type),
              "\n#define COMPUTE ", ComputeTypeName(type), "\n#define JOIN ", text.join, "\n#define FIRST ", text.first,
              "\n#define EACH ", text.each, "\n#define LAST ", text.last, kTeam, kReduceColumnsSource)};
}

constexpr char kSoftmaxSource[] = R"(
struct Masked { int64 rows, count, outer1, inner; int64 strides[4]; float scale; int nan_to_zero; };
extern "C" __global__ void Softmax(const ELEMENT* x, const ELEMENT* mask, ELEMENT* y, int64 step, const Masked how) {
  const int teams = blockDim.x / TEAM, member = threadIdx.x % TEAM;
  for (int64 first = int64(blockIdx.x) * teams; first < how.rows; first += int64(gridDim.x) * teams) {
    const int64 row = first + threadIdx.x / TEAM;
    const bool inside = row < how.rows;
    const int64 base = row / step * how.count * step + row % step;
    const ELEMENT* added = mask;
    if (HAS_MASK)
      added += row % how.inner * how.strides[2] + row / how.inner % how.outer1 * how.strides[1] +
               row / how.inner / how.outer1 * how.strides[0];
    COMPUTE kept[KEPT];
    COMPUTE largest = -Infinity<COMPUTE>();
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
      const int64 i = member + int64(k) * TEAM;
      if (inside && i < how.count) {
        COMPUTE v = COMPUTE(Load(x[base + i * step]));
        if (HAS_MASK || IS_SCALED) v *= COMPUTE(how.scale);
        if (HAS_MASK) v += COMPUTE(Load(added[i * how.strides[3]]));
        kept[k] = v;
        largest = Larger()(largest, v);
      }
    }
    for (int64 i = member + int64(KEPT) * TEAM; inside && i < how.count; i += TEAM) {
      COMPUTE v = COMPUTE(Load(x[base + i * step]));
      if (HAS_MASK || IS_SCALED) v *= COMPUTE(how.scale);
      if (HAS_MASK) v += COMPUTE(Load(added[i * how.strides[3]]));
      largest = Larger()(largest, v);
    }
    largest = JoinTeam(largest, Larger());
    COMPUTE sum = COMPUTE(0);
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
      if (inside && member + int64(k) * TEAM < how.count) {
        const COMPUTE e = exp(kept[k] - largest);
        sum += e;
        kept[k] = IS_LOG ? kept[k] - largest : e;
      }
    }
    for (int64 i = member + int64(KEPT) * TEAM; inside && i < how.count; i += TEAM) {
      COMPUTE v = COMPUTE(Load(x[base + i * step]));
      if (HAS_MASK || IS_SCALED) v *= COMPUTE(how.scale);
      if (HAS_MASK) v += COMPUTE(Load(added[i * how.strides[3]]));
      sum += exp(v - largest);
    }
    sum = JoinTeam(sum, Plus());
    const COMPUTE last = IS_LOG ? log(sum) : COMPUTE(1) / sum;
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
      const int64 i = member + int64(k) * TEAM;
      if (inside && i < how.count) {
        COMPUTE v = IS_LOG ? kept[k] - last : kept[k] * last;
        if (how.nan_to_zero && v != v) v = COMPUTE(0);
        y[base + i * step] = Stored<ELEMENT>::From(v);
      }
    }
    for (int64 i = member + int64(KEPT) * TEAM; inside && i < how.count; i += TEAM) {
      COMPUTE v = COMPUTE(Load(x[base + i * step]));
      if (HAS_MASK || IS_SCALED) v *= COMPUTE(how.scale);
      if (HAS_MASK) v += COMPUTE(Load(added[i * how.strides[3]]));
      v = IS_LOG ? v - largest - last : exp(v - largest) * last;
      if (how.nan_to_zero && v != v) v = COMPUTE(0);
      y[base + i * step] = Stored<ELEMENT>::From(v);
    }
  }
}
)";

// Softmax as the standard's chain of operators has it in bfloat16, rounded after every step, where the model itself is
// of that type (ops/support/rounding.h): members of a team add up runs of 16.
constexpr char kRoundedSoftmaxSource[] = R"(
__device__ inline float Rounded(float x) { return Load(Stored<bfloat16>::From(x)); }
extern "C" __global__ void RoundedSoftmax(const bfloat16* x, bfloat16* y, int64 rows, int64 count, int64 step) {
  const int member = threadIdx.x % TEAM;
  for (int64 first = int64(blockIdx.x) * (blockDim.x / TEAM); first < rows; first += int64(gridDim.x) * (blockDim.x / TEAM)) {
    const int64 row = first + threadIdx.x / TEAM, base = row / step * count * step + row % step;
    const int64 there = row < rows ? count : 0;
    float largest = -Infinity<float>(), sum = 0.0f;
    for (int64 i = member; i < there; i += TEAM) largest = Larger()(largest, Load(x[base + i * step]));
    largest = JoinTeam(largest, Larger());
    for (int64 run = member; run * 16 < there; run += TEAM) {
      float part = 0.0f;
      for (int64 i = run * 16; i < there && i < run * 16 + 16; ++i)
        part = Rounded(part + Rounded(expf(Rounded(Load(x[base + i * step]) - largest))));
      sum += part;
    }
    sum = Rounded(JoinTeam(sum, Plus()));
    for (int64 i = member; i < there; i += TEAM)
      y[base + i * step] = Stored<bfloat16>::From(Rounded(expf(Rounded(Load(x[base + i * step]) - largest))) / sum);
  }
}
)";

KernelSource RoundedSoftmaxSource() {
  return {"RoundedSoftmax", Cat("#define TEAM 32\n", kTeam, kRoundedSoftmaxSource)};
}

struct Masked {
  int64_t rows, count, outer1, inner;
  int64_t strides[4];
  float scale;
  int nan_to_zero;
};

// Threads that share a row, and how many of its elements each keeps in registers.
struct RowTeam {
  int team = 32, kept = 4;
};

RowTeam TeamFor(int64_t count) {
  if (count <= 128) return {32, 4};
  if (count <= 1024) return {128, 8};
  return {256, 8};
}

KernelSource SoftmaxSource(DType type, RowTeam team, bool log, bool mask, bool scaled) {
  return {"Softmax", Cat("#define TEAM ", team.team, "\n#define KEPT ", team.kept, "\n#define ELEMENT ", TypeName(type),
                         "\n#define COMPUTE ", ComputeTypeName(type), "\n#define IS_LOG ", log, "\n#define HAS_MASK ",
                         mask, "\n#define IS_SCALED ", scaled, kTeam, kSoftmaxSource)};
}

constexpr char kNormalizeSource[] = R"(
extern "C" __global__ void Normalize(const ELEMENT* x, const ELEMENT* scale, const ELEMENT* bias, ELEMENT* y, int64 rows,
                                     int64 count, float epsilon) {
  const int teams = blockDim.x / TEAM, member = threadIdx.x % TEAM;
  for (int64 first = int64(blockIdx.x) * teams; first < rows; first += int64(gridDim.x) * teams) {
    const int64 row = first + threadIdx.x / TEAM;
    const bool inside = row < rows;
    const ELEMENT* from = x + row * count;
    COMPUTE kept[KEPT];
    COMPUTE sum = COMPUTE(0);
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
      const int64 i = member + int64(k) * TEAM;
      kept[k] = inside && i < count ? COMPUTE(Load(from[i])) : COMPUTE(0);
      sum += kept[k];
    }
    for (int64 i = member + int64(KEPT) * TEAM; inside && i < count; i += TEAM) sum += COMPUTE(Load(from[i]));
    const COMPUTE mean = IS_CENTERED ? JoinTeam(sum, Plus()) / COMPUTE(count) : COMPUTE(0);
    COMPUTE squares = COMPUTE(0);
#pragma unroll
    for (int k = 0; k < KEPT; ++k)
      if (inside && member + int64(k) * TEAM < count) squares += (kept[k] - mean) * (kept[k] - mean);
    for (int64 i = member + int64(KEPT) * TEAM; inside && i < count; i += TEAM) {
      const COMPUTE v = COMPUTE(Load(from[i])) - mean;
      squares += v * v;
    }
    const COMPUTE factor = COMPUTE(1) / sqrt(JoinTeam(squares, Plus()) / COMPUTE(count) + COMPUTE(epsilon));
    for (int64 i = member, k = 0; inside && i < count; i += TEAM, ++k) {
      COMPUTE v = (COMPUTE(Load(from[i])) - mean) * factor;
      if (HAS_SCALE) v *= COMPUTE(Load(scale[i]));
      if (HAS_BIAS) v += COMPUTE(Load(bias[i]));
      y[row * count + i] = Stored<ELEMENT>::From(v);
    }
  }
}
)";

KernelSource NormalizeSource(DType type, RowTeam team, bool centered, bool scale, bool bias) {
  return {"Normalize",
          Cat("#define TEAM ", team.team, "\n#define KEPT ", team.kept, "\n#define ELEMENT ", TypeName(type),
              "\n#define COMPUTE ", ComputeTypeName(type), "\n#define IS_CENTERED ", centered, "\n#define HAS_SCALE ",
              scale, "\n#define HAS_BIAS ", bias, kTeam, kNormalizeSource)};
}

constexpr char kPoolSource[] = R"(
struct Axis { int64 input, output, kernel, stride, dilation, pad; };
struct Pool { int64 total, channels, pixel, channel, image; Axis y, x; };
extern "C" __global__ void RunPool(const ELEMENT* from, ELEMENT* to, const Pool pool) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < pool.total; i += int64(gridDim.x) * blockDim.x) {
    int64 rest = i, c = 0;
    if (CHANNELS_LAST) { c = rest % pool.channels; rest /= pool.channels; }
    const int64 ox = rest % pool.x.output; rest /= pool.x.output;
    const int64 oy = rest % pool.y.output; rest /= pool.y.output;
    if (!CHANNELS_LAST) { c = rest % pool.channels; rest /= pool.channels; }
    const ELEMENT* image = from + rest * pool.image + c * pool.channel;
    COMPUTE joined = IS_MAX ? -Infinity<COMPUTE>() : COMPUTE(0);
    int count = 0;
    for (int64 ky = 0; ky < pool.y.kernel; ++ky) {
      const int64 y = oy * pool.y.stride - pool.y.pad + ky * pool.y.dilation;
      if (y < 0 || y >= pool.y.input) continue;
      for (int64 kx = 0; kx < pool.x.kernel; ++kx) {
        const int64 x = ox * pool.x.stride - pool.x.pad + kx * pool.x.dilation;
        if (x < 0 || x >= pool.x.input) continue;
        const COMPUTE v = COMPUTE(Load(image[(y * pool.x.input + x) * pool.pixel]));
        joined = IS_MAX ? Larger()(joined, v) : joined + v;
        ++count;
      }
    }
    if (!IS_MAX) joined /= COMPUTE(INCLUDE_PADDING ? pool.y.kernel * pool.x.kernel : count);
    to[i] = Stored<ELEMENT>::From(joined);
  }
}
)";

KernelSource PoolSource(DType type, const Pool& pool) {
  return {"RunPool", Cat("#define TEAM 32\n#define ELEMENT ", TypeName(type), "\n#define COMPUTE ",
                         BitWidth(type) == 8 ? "float" : ComputeTypeName(type), "\n#define IS_MAX ", pool.is_max,
                         "\n#define CHANNELS_LAST ", pool.channels_last, "\n#define INCLUDE_PADDING ",
                         pool.include_padding, kTeam, kPoolSource)};
}

Grid RowGrid(const Device& device, int64_t rows, int team) {
  const unsigned threads = team < 256 ? 128 : 256;
  const int64_t teams = threads / static_cast<unsigned>(team), blocks = (rows + teams - 1) / teams;
  const int64_t most = int64_t{device.facts().multiprocessors} * 64;
  return {static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, most)), threads};
}

}  // namespace

bool CanReduce(Reduction reduction, DType type) {
  if (type == DType::kFloat || type == DType::kDouble || type == DType::kFloat16 || type == DType::kBFloat16)
    return true;
  const bool whole = type == DType::kInt32 || type == DType::kInt64;
  return whole && (reduction == Reduction::kSum || reduction == Reduction::kMax || reduction == Reduction::kMin ||
                   reduction == Reduction::kProd);
}

void Reduce(const Device& device, Reduction reduction, const Tensor& x, const std::vector<bool>& axes, Tensor& y) {
  if (y.size() == 0) return;
  Axes walk{1, 1, 0, 0, {1}, {0}, {1}, {0}};
  const std::vector<int64_t> strides = x.shape().Strides();
  auto add = [](int64_t dim, int64_t stride, int32_t& rank, int64_t* dims, int64_t* steps) {
    if (dim == 1) return;
    if (rank > 0 && steps[rank - 1] == stride * dim) {
      dims[rank - 1] *= dim;
      steps[rank - 1] = stride;
      return;
    }
    Require(rank < 8, "a reduction walks along more than 8 axes");
    dims[rank] = dim;
    steps[rank++] = stride;
  };
  for (size_t i = 0; i < x.rank(); ++i)
    if (axes[i])
      walk.count *= x.dim(i), add(x.dim(i), strides[i], walk.gone, walk.gone_dims, walk.gone_strides);
    else
      walk.rows *= x.dim(i), add(x.dim(i), strides[i], walk.kept, walk.kept_dims, walk.kept_strides);
  walk.kept = std::max(walk.kept, 1);
  walk.gone = std::max(walk.gone, 1);
  // Columns of matrices, one after the other: what is left of an image's pixels.
  const int64_t inner = walk.kept_dims[walk.kept - 1];
  const bool columns = walk.gone == 1 && walk.kept <= 2 && walk.kept_strides[walk.kept - 1] == 1 &&
                       walk.gone_strides[0] == inner && (walk.kept == 1 || walk.kept_strides[0] == walk.count * inner);
  if (columns && walk.count >= 32 && IsFloating(x.dtype()) && reduction != Reduction::kLogSumExp) {
    const int64_t outer = walk.rows / inner, blocks = outer * ((inner + 31) / 32);
    const Grid grid{static_cast<unsigned>(std::min<int64_t>(blocks, 1 << 20)), kColumnWarps * 32};
    return Launch(device,
                  FindKernel(device, Cat("reduce columns ", static_cast<int>(reduction), x.dtype()),
                             [&] { return ReduceColumnsSource(reduction, x.dtype()); }),
                  grid, x.address(), y.address(), outer, walk.count, inner);
  }
  // Neighbouring rows are read by neighbouring threads where a row's elements lie apart.
  const bool apart = walk.gone_strides[walk.gone - 1] != 1 && walk.rows >= 1024;
  const int team = apart || walk.count < 4 ? 1 : walk.count <= 256 ? 32 : 256;
  Launch(device,
         FindKernel(device, Cat("reduce ", static_cast<int>(reduction), x.dtype(), team),
                    [&] { return ReduceSource(reduction, x.dtype(), team); }),
         team == 1 ? GridFor(device, walk.rows, 128) : RowGrid(device, walk.rows, team), x.address(), y.address(),
         walk);
}

void Softmax(const Device& device, bool log, int64_t outer, int64_t count, int64_t inner, const Tensor& x, Tensor& y) {
  if (x.size() == 0) return;
  const RowTeam team = TeamFor(count);
  const Masked how{outer * inner, count, 1, 1, {}, 1, 0};
  Launch(device,
         FindKernel(device, Cat("softmax ", x.dtype(), team.team, log),
                    [&] { return SoftmaxSource(x.dtype(), team, log, false, false); }),
         RowGrid(device, how.rows, team.team), x.address(), static_cast<const std::byte*>(nullptr), y.address(), inner,
         how);
}

void RoundedSoftmax(const Device& device, int64_t outer, int64_t count, int64_t inner, const Tensor& x, Tensor& y) {
  if (x.size() == 0) return;
  Launch(device, FindKernel(device, "rounded softmax", [] { return RoundedSoftmaxSource(); }),
         RowGrid(device, outer * inner, 32), x.address(), y.address(), outer * inner, count, inner);
}

void SoftmaxWithMask(const Device& device, const MaskedSoftmax& how, const Tensor& x, Tensor& y) {
  if (x.size() == 0) return;
  const RowTeam team = TeamFor(how.count);
  Masked masked{how.rows, how.count, how.outer1, how.inner, {}, how.scale, how.nan_to_zero};
  std::copy(how.mask_strides, how.mask_strides + 4, masked.strides);
  const std::byte* mask = how.mask ? how.mask->address() : nullptr;
  Launch(device,
         FindKernel(device, Cat("masked softmax ", x.dtype(), team.team, mask != nullptr),
                    [&] { return SoftmaxSource(x.dtype(), team, false, mask != nullptr, true); }),
         RowGrid(device, how.rows, team.team), x.address(), mask, y.address(), int64_t{1}, masked);
}

void NormalizeRows(const Device& device, int64_t count, float epsilon, bool centered, const Tensor& x,
                   const Tensor* scale, const Tensor* bias, Tensor& y) {
  if (x.size() == 0 || NormalizePacks(device, count, epsilon, centered, x, scale, bias, y)) return;
  const RowTeam team = TeamFor(count);
  const int64_t rows = x.size() / count;
  auto address = [](const Tensor* t) { return t ? t->address() : nullptr; };
  Launch(device,
         FindKernel(device, Cat("normalize ", x.dtype(), team.team, centered, scale != nullptr, bias != nullptr),
                    [&] { return NormalizeSource(x.dtype(), team, centered, scale, bias); }),
         RowGrid(device, rows, team.team), x.address(), address(scale), address(bias), y.address(), rows, count,
         epsilon);
}

void RunPool(const Device& device, const Pool& pool, const Tensor& x, Tensor& y) {
  if (y.size() == 0 || PoolPacks(device, pool, x, y)) return;
  struct Axis {
    int64_t input, output, kernel, stride, dilation, pad;
  };
  struct {
    int64_t total, channels, pixel, channel, image;
    Axis y, x;
  } places;
  const int64_t pixels = pool.axes[0].input * pool.axes[1].input;
  auto axis = [](const WindowAxis& a) { return Axis{a.input, a.output, a.kernel, a.stride, a.dilation, a.pad_begin}; };
  places = {y.size(),
            pool.channels,
            pool.channels_last ? pool.channels : 1,
            pool.channels_last ? 1 : pixels,
            pixels * pool.channels,
            axis(pool.axes[0]),
            axis(pool.axes[1])};
  Launch(device,
         FindKernel(device, Cat("pool ", x.dtype(), pool.is_max, pool.channels_last, pool.include_padding),
                    [&] { return PoolSource(x.dtype(), pool); }),
         GridFor(device, y.size()), x.address(), y.address(), places);
}

std::vector<KernelSource> AllKernelSources() {
  std::vector<KernelSource> all = MoveSources();
  for (Reduction reduction :
       {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin, Reduction::kProd, Reduction::kL1,
        Reduction::kL2, Reduction::kSumSquare, Reduction::kLogSum, Reduction::kLogSumExp})
    all.push_back(ReduceSource(reduction, DType::kFloat, reduction == Reduction::kMax ? 1 : 256));
  all.push_back(ReduceSource(Reduction::kMax, DType::kInt64, 32));
  all.push_back(ReduceColumnsSource(Reduction::kMean, DType::kFloat16));
  all.push_back(SoftmaxSource(DType::kFloat, {32, 4}, true, false, false));
  all.push_back(SoftmaxSource(DType::kFloat16, {256, 8}, false, true, true));
  all.push_back(RoundedSoftmaxSource());
  all.push_back(NormalizeSource(DType::kFloat, {128, 8}, true, true, true));
  all.push_back(NormalizeSource(DType::kBFloat16, {256, 8}, false, true, false));
  for (bool flag : {false, true}) {
    Pool pool;
    pool.is_max = pool.channels_last = flag;
    all.push_back(PoolSource(DType::kFloat, pool));
    if (flag) all.push_back(PoolSource(DType::kInt8, pool));
    ConvolutionShape shape;
    shape.axes[0] = shape.axes[1] = {8, 8, 3, 1, 1, 1, 1};
    shape.has_bias = shape.has_sum = flag;
    all.push_back(DepthwiseSource(shape, flag ? 4 : 1, flag ? 4 : 1));
  }
  for (auto more : {LayoutSources, IndexSources, FillSources, RecurrentSources, ChannelSources, QuantizedSources,
                    ByteSources, FlashSources, PackSources, PatchSources, GroupedSources, JoinSources, ProductSources,
                    FewRowsSources, RotarySources})
    for (KernelSource& source : more()) all.push_back(std::move(source));
  return all;
}

}  // namespace ferry::cuda
