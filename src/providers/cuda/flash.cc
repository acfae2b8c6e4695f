#include "providers/cuda/flash.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "providers/cuda/chain.h"

namespace ferry::cuda {
namespace {

// A warp takes 16 queries and walks through the keys in tiles that the block shares. Tensor cores take 16×8 results at
// a time; thread 4·g + t of a warp holds columns 2t and 2t+1 of rows g and g+8. Where operands are TF32, a step of 8
// along the inner axis takes its elements in the order 0 2 4 6 1 3 5 7, on both sides: then what a thread holds of the
// weights is what it needs of them for the next product.
constexpr char kSource[] = R"(
struct Problem {
  int64 q[3], k[4], v[3], out[3], mask[4];
  int32 queries, keys, heads, sharing, tiles; float scale; int32 nan_to_zero, mask_images;
};
#if IS_FLOAT
#define STEP 8
__device__ inline uint32 Rounded(float x) { uint32 y; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x)); return y; }
__device__ inline void Multiply(float* c, const uint32* a, const uint32* b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
#define STEP 16
__device__ inline void Multiply(float* c, const uint32* a, const uint32* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MMA_TYPE "." MMA_TYPE ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline uint32 Joined(float low, float high) {
  return uint32(Stored<ELEMENT>::From(low).bits) | uint32(Stored<ELEMENT>::From(high).bits) << 16;
}
#endif
#define PER_COPY (16 / int(sizeof(ELEMENT)))
#define K_PITCH (DEPTH + 8)
#define V_PITCH (VALUES + (IS_FLOAT ? 4 : 8))
__device__ inline void Copy16(ELEMENT* to, const ELEMENT* from, bool inside) {
  const uint32 place = uint32(__cvta_generic_to_shared(to));
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(place), "l"(from), "r"(bytes));
}
__device__ inline float Power(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ inline void LoadKeys(ELEMENT* k_tile, const ELEMENT* k, int first, const Problem& p) {
#if K_IS_TURNED
  for (int i = threadIdx.x; i < KEYS * DEPTH; i += WARPS * 32) {
    const int key = i % KEYS, d = i / KEYS;
    k_tile[key * K_PITCH + d] = first + key < p.keys ? k[(first + key) * p.k[2] + d * p.k[3]] : ELEMENT();
  }
#else
  for (int i = threadIdx.x; i < KEYS * (DEPTH / PER_COPY); i += WARPS * 32) {
    const int key = i / (DEPTH / PER_COPY), d = i % (DEPTH / PER_COPY) * PER_COPY;
    const bool inside = first + key < p.keys;
    Copy16(k_tile + key * K_PITCH + d, k + (inside ? (first + key) * p.k[2] + d : 0), inside);
  }
#endif
}
extern "C" __global__ void __launch_bounds__(WARPS * 32) Flash(const ELEMENT* q, const ELEMENT* k, const ELEMENT* v,
                                                               const MASK* mask, ELEMENT* out, const Problem p) {
  extern __shared__ uint4 shared[];
  ELEMENT* k_tile = reinterpret_cast<ELEMENT*>(shared);
  ELEMENT* v_tile = k_tile + KEYS * K_PITCH;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
  const int tile = blockIdx.x % p.tiles;
  const int64 head = blockIdx.x / p.tiles % p.heads, image = blockIdx.x / p.tiles / p.heads;
  q += image * p.q[0] + head * p.q[1];
  k += image * p.k[0] + head / p.sharing * p.k[1];
  v += image * p.v[0] + head / p.sharing * p.v[1];
  out += image * p.out[0] + head * p.out[1];
  if (HAS_MASK) mask += image % p.mask_images * p.mask[0] + head * p.mask[1];
  const int rows[2] = {(tile * WARPS + warp) * 16 + g, (tile * WARPS + warp) * 16 + g + 8};

  uint32 a[DEPTH / STEP][4];
#pragma unroll
  for (int d = 0; d < DEPTH / STEP; ++d)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const ELEMENT* from = q + rows[r] * p.q[2] + d * STEP + t * 2;
      const bool inside = rows[r] < p.queries;
#if IS_FLOAT
      const float2 pair = inside ? *reinterpret_cast<const float2*>(from) : make_float2(0, 0);
      a[d][r] = Rounded(pair.x);
      a[d][r + 2] = Rounded(pair.y);
#else
      a[d][r] = inside ? *reinterpret_cast<const uint32*>(from) : 0;
      a[d][r + 2] = inside ? *reinterpret_cast<const uint32*>(from + 8) : 0;
#endif
    }

  float made[VALUES / 8][4];
#pragma unroll
  for (int n = 0; n < VALUES / 8; ++n) made[n][0] = made[n][1] = made[n][2] = made[n][3] = 0;
  float largest[2] = {-INFINITY_, -INFINITY_}, sum[2] = {0, 0};

  LoadKeys(k_tile, k, 0, p);
  asm volatile("cp.async.commit_group;");
  for (int first = 0; first < p.keys; first += KEYS) {
    __syncthreads();
    for (int i = thread; i < KEYS * (VALUES / PER_COPY); i += WARPS * 32) {
      const int key = i / (VALUES / PER_COPY), d = i % (VALUES / PER_COPY) * PER_COPY;
      const bool inside = first + key < p.keys;
      Copy16(v_tile + key * V_PITCH + d, v + (inside ? (first + key) * p.v[2] + d : 0), inside);
    }
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();

    float scores[KEYS / 8][4];
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n) {
      scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0;
#pragma unroll
      for (int d = 0; d < DEPTH / STEP; ++d) {
        const ELEMENT* from = k_tile + (n * 8 + g) * K_PITCH + d * STEP + t * 2;
        uint32 b[2];
#if IS_FLOAT
        const float2 pair = *reinterpret_cast<const float2*>(from);
        b[0] = Rounded(pair.x);
        b[1] = Rounded(pair.y);
#else
        b[0] = *reinterpret_cast<const uint32*>(from);
        b[1] = *reinterpret_cast<const uint32*>(from + 8);
#endif
        Multiply(scores[n], a[d], b);
      }
    }

    float before[2] = {largest[0], largest[1]};
#if HAS_MASK && PAIRED_MASK
    Pack<MASK, 2> pair = {};
#endif
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first + n * 8 + t * 2 + i % 2, row = rows[i / 2];
        float score = scores[n][i] * p.scale;
#if HAS_MASK && PAIRED_MASK
        if (i % 2 == 0 && row < p.queries && key < p.keys)
          pair = *reinterpret_cast<const Pack<MASK, 2>*>(mask + row * p.mask[2] + key);
        score += Load(pair.at[i % 2]);
#elif HAS_MASK
        if (key < p.keys && row < p.queries) score += Load(mask[row * p.mask[2] + key * p.mask[3]]);
#endif
        if (key >= p.keys) score = -INFINITY_;
        scores[n][i] = score;
        largest[i / 2] = fmaxf(largest[i / 2], score);
      }
    float shift[2], fade[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = fmaxf(largest[r], __shfl_xor_sync(FULL_WARP, largest[r], 1));
      largest[r] = fmaxf(largest[r], __shfl_xor_sync(FULL_WARP, largest[r], 2));
      shift[r] = largest[r] == -INFINITY_ ? 0.0f : largest[r];
      fade[r] = Power((before[r] - shift[r]) * 1.44269504f);
      sum[r] *= fade[r];
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = Power((scores[n][i] - shift[i / 2]) * 1.44269504f);
        sum[i / 2] += scores[n][i];
      }
#pragma unroll
    for (int n = 0; n < VALUES / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) made[n][i] *= fade[i / 2];

    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    // Nobody reads these keys any more: the next ones come while the values are multiplied.
    if (first + KEYS < p.keys) LoadKeys(k_tile, k, first + KEYS, p);
    asm volatile("cp.async.commit_group;");
#pragma unroll
    for (int s = 0; s < KEYS / STEP; ++s) {
      uint32 weights[4];
#if IS_FLOAT
      weights[0] = Rounded(scores[s][0]);
      weights[1] = Rounded(scores[s][2]);
      weights[2] = Rounded(scores[s][1]);
      weights[3] = Rounded(scores[s][3]);
#else
      weights[0] = Joined(scores[2 * s][0], scores[2 * s][1]);
      weights[1] = Joined(scores[2 * s][2], scores[2 * s][3]);
      weights[2] = Joined(scores[2 * s + 1][0], scores[2 * s + 1][1]);
      weights[3] = Joined(scores[2 * s + 1][2], scores[2 * s + 1][3]);
#endif
#pragma unroll
      for (int n = 0; n < VALUES / 8; ++n) {
        uint32 b[2];
#if IS_FLOAT
        b[0] = Rounded(v_tile[(s * 8 + t * 2) * V_PITCH + n * 8 + g]);
        b[1] = Rounded(v_tile[(s * 8 + t * 2 + 1) * V_PITCH + n * 8 + g]);
#else
        const uint32 place = uint32(__cvta_generic_to_shared(v_tile + (s * 16 + lane % 16) * V_PITCH + n * 8));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(b[0]), "=r"(b[1]) : "r"(place));
#endif
        Multiply(made[n], weights, b);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(FULL_WARP, sum[r], 1);
    sum[r] += __shfl_xor_sync(FULL_WARP, sum[r], 2);
  }
#pragma unroll
  for (int n = 0; n < VALUES / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (rows[r] >= p.queries) continue;
      float x = made[n][2 * r] / sum[r], y = made[n][2 * r + 1] / sum[r];
      if (p.nan_to_zero) x = x != x ? 0.0f : x, y = y != y ? 0.0f : y;
      Pack<ELEMENT, 2> pair;
      pair.at[0] = Stored<ELEMENT>::From(x);
      pair.at[1] = Stored<ELEMENT>::From(y);
      *reinterpret_cast<Pack<ELEMENT, 2>*>(out + rows[r] * p.out[2] + n * 8 + t * 2) = pair;
    }
}
)";

struct Parameters {
  int64_t q[3], k[4], v[3], out[3], mask[4];
  int32_t queries, keys, heads, sharing, tiles;
  float scale;
  int32_t nan_to_zero, mask_images;
};

int64_t BytesOf(DType type) { return type == DType::kFloat ? 4 : 2; }

int KeysPerTile(const FlashProblem& problem) {
  if (problem.keys <= 32) return 32;
  return problem.dtype == DType::kFloat && std::max(problem.depth, problem.values) > 64 ? 32 : 64;
}

bool IsTurned(const FlashProblem& problem) { return problem.k[3] != 1; }

// Neighbours of a row of the mask lie in one aligned pair.
bool HasPairedMask(const FlashProblem& p) {
  return p.has_mask && p.mask[3] == 1 && p.keys % 2 == 0 && p.mask[0] % 2 == 0 && p.mask[1] % 2 == 0 &&
         p.mask[2] % 2 == 0;
}

}  // namespace

bool CanFlash(const FlashProblem& p, int compute_major) {
  if (compute_major < 8) return false;
  const bool small = p.dtype == DType::kFloat16 || p.dtype == DType::kBFloat16;
  if (!small && p.dtype != DType::kFloat) return false;
  if (p.has_mask && p.mask_type != DType::kFloat && p.mask_type != p.dtype) return false;
  const int64_t together = 16 / BytesOf(p.dtype);
  for (int64_t size : {p.depth, p.values})
    if (size < 16 || size > 128 || size % 16 != 0) return false;
  for (int64_t size : {p.batch, p.heads, p.queries, p.keys})
    if (size < 1 || size > INT32_MAX / 2) return false;
  if (p.sharing < 1 || p.heads % p.sharing != 0 || p.mask_images < 1 || p.mask_images > INT32_MAX) return false;
  auto aligned = [&](const int64_t* strides, int count) {
    return std::all_of(strides, strides + count, [&](int64_t stride) { return stride % together == 0; });
  };
  if (!aligned(p.q, 3) || !aligned(p.v, 3) || !aligned(p.out, 3)) return false;
  if (!IsTurned(p) && !aligned(p.k, 3)) return false;
  return p.batch * p.heads <= INT32_MAX / ((p.queries + 15) / 16);
}

KernelSource FlashSource(const FlashProblem& p, int warps) {
  const bool is_float = p.dtype == DType::kFloat;
  return {"Flash",
          Cat("#define ELEMENT ", TypeName(p.dtype), "\n#define MASK ", TypeName(p.has_mask ? p.mask_type : p.dtype),
              "\n#define IS_FLOAT ", is_float, "\n#define MMA_TYPE \"", p.dtype == DType::kFloat16 ? "f16" : "bf16",
              "\"\n#define DEPTH ", p.depth, "\n#define VALUES ", p.values, "\n#define KEYS ", KeysPerTile(p),
              "\n#define WARPS ", warps, "\n#define HAS_MASK ", p.has_mask, "\n#define PAIRED_MASK ", HasPairedMask(p),
              "\n#define K_IS_TURNED ", IsTurned(p), "\n#define INFINITY_ __int_as_float(0x7f800000)\n", kSource)};
}

void Flash(const Device& device, const FlashProblem& given, const FlashOperands& operands) {
  FlashProblem p = given;
  // The single queries of heads that share keys are the rows of one matrix.
  if (p.sharing > 1 && p.queries == 1 && (!p.has_mask || p.mask[1] == 0)) {
    p.queries = p.sharing;
    p.heads /= p.sharing;
    p.q[2] = p.q[1], p.out[2] = p.out[1];
    p.q[1] *= p.sharing, p.out[1] *= p.sharing;
    p.mask[2] = 0;
    p.sharing = 1;
  }
  const int64_t groups = (p.queries + 15) / 16;
  int warps = 4;
  while (warps > 1 &&
         (groups < warps || (groups + warps - 1) / warps * p.batch * p.heads < device.facts().multiprocessors))
    warps /= 2;
  const int64_t tiles = (groups + warps - 1) / warps;
  Parameters parameters{};
  std::copy(p.q, p.q + 3, parameters.q);
  std::copy(p.k, p.k + 4, parameters.k);
  std::copy(p.v, p.v + 3, parameters.v);
  std::copy(p.out, p.out + 3, parameters.out);
  std::copy(p.mask, p.mask + 4, parameters.mask);
  parameters.queries = static_cast<int32_t>(p.queries), parameters.keys = static_cast<int32_t>(p.keys);
  parameters.heads = static_cast<int32_t>(p.heads), parameters.sharing = static_cast<int32_t>(p.sharing);
  parameters.tiles = static_cast<int32_t>(tiles);
  parameters.scale = p.scale;
  parameters.nan_to_zero = p.nan_to_zero;
  parameters.mask_images = static_cast<int32_t>(p.mask_images);
  const int keys = KeysPerTile(p);
  const std::string key =
      Cat("flash ", p.dtype, p.has_mask ? Cat(" mask ", p.mask_type) : std::string(), " ", p.depth, " ", p.values, " ",
          keys, " ", warps, IsTurned(p) ? " turned" : "", HasPairedMask(p) ? " pairs" : "");
  const Function function = FindKernel(device, key, [&] { return FlashSource(p, warps); });
  const int64_t pitches = p.depth + 8 + p.values + (p.dtype == DType::kFloat ? 4 : 8);
  Grid grid{static_cast<unsigned>(tiles * p.heads * p.batch), static_cast<unsigned>(warps * 32),
            static_cast<unsigned>(keys * pitches * BytesOf(p.dtype))};
  Launch(device, function, grid, operands.q, operands.k, operands.v, operands.mask, operands.out, parameters);
}

std::vector<KernelSource> FlashSources() {
  std::vector<KernelSource> sources;
  for (DType type : {DType::kFloat, DType::kFloat16, DType::kBFloat16}) {
    const bool turned = type == DType::kFloat16;
    FlashProblem problem;
    problem.dtype = problem.mask_type = type;
    problem.depth = problem.values = 64, problem.keys = turned ? 20 : 128;
    problem.has_mask = turned;
    problem.k[3] = turned ? 64 : 1;
    sources.push_back(FlashSource(problem, turned ? 1 : 4));
  }
  return sources;
}

}  // namespace ferry::cuda
