#include "providers/cuda/few_rows.h"

#include <algorithm>

#include "base/text.h"
#include "providers/cuda/chain.h"

namespace ferry::cuda {
namespace {

constexpr int64_t kMostRows = 4;

// A warp makes one column of the result: its row of the matrix lies in one piece.
constexpr char kSource[] = R"(
typedef Pack<ELEMENT, WIDTH> Group;
extern "C" __global__ void __launch_bounds__(128) FewRows(const Group* a, const Group* b, const ELEMENT* bias,
                                                          const RESULT* sum, RESULT* d, int32 columns, int32 packs,
                                                          int64 a_pitch, int64 d_pitch, float alpha) {
  const int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
  for (int column = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; column < columns; column += warps) {
    const Group* from = b + int64(column) * packs;
    float joined[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) joined[r] = 0.0f;
#pragma unroll 4
    for (int i = lane; i < packs; i += 32) {
      const Group w = from[i];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const Group x = a[r * a_pitch + i];
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) joined[r] += Load(x.at[k]) * Load(w.at[k]);
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int step = 16; step > 0; step /= 2) joined[r] += __shfl_xor_sync(FULL_WARP, joined[r], step);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      if (lane != r) continue;
      float v = joined[r] * alpha;
      if (HAS_BIAS) v += Load(bias[column]);
      if (HAS_SUM) v += Load(sum[r * d_pitch + column]);
      if (IS_RELU) v = v < 0.0f ? 0.0f : v;
      if (IS_SILU) v = v / (1.0f + __expf(-v));
      d[r * d_pitch + column] = Stored<RESULT>::From(v);
    }
  }
}
)";

int WidthOf(DType type) { return type == DType::kFloat ? 4 : 8; }

KernelSource Source(const ProductShape& shape) {
  return {"FewRows", Cat("#define ELEMENT ", TypeName(shape.dtype), "\n#define RESULT ", TypeName(shape.made()),
                         "\n#define WIDTH ", WidthOf(shape.dtype), "\n#define ROWS ", shape.rows, "\n#define HAS_BIAS ",
                         shape.has_bias, "\n#define HAS_SUM ", shape.has_sum, "\n#define IS_RELU ",
                         shape.after == ProductShape::After::kRelu, "\n#define IS_SILU ",
                         shape.after == ProductShape::After::kSilu, kSource)};
}

}  // namespace

bool TakesFewRows(const ProductShape& s, const ProductOperands& operands) {
  if (s.dtype != DType::kFloat && s.dtype != DType::kFloat16 && s.dtype != DType::kBFloat16) return false;
  if (s.rows > kMostRows || s.batch != 1 || s.a_transposed || !s.b_transposed || s.columns > INT32_MAX / 2 ||
      s.depth > INT32_MAX / 2 || s.after == ProductShape::After::kGelu)
    return false;
  const int64_t width = WidthOf(s.dtype);
  const uintptr_t bits = reinterpret_cast<uintptr_t>(operands.a) | reinterpret_cast<uintptr_t>(operands.b);
  return s.depth % width == 0 && s.a_pitch % width == 0 && s.b_pitch == s.depth && bits % 16 == 0;
}

void MultiplyFewRows(const Device& device, const ProductShape& s, const ProductOperands& operands) {
  const int64_t width = WidthOf(s.dtype);
  const std::string key =
      Cat("few rows ", s.dtype, s.made(), " ", s.rows, s.has_bias, s.has_sum, " ", static_cast<int>(s.after));
  const int64_t blocks = std::min<int64_t>((s.columns + 3) / 4, int64_t{device.facts().multiprocessors} * 16);
  Launch(device, FindKernel(device, key, [&] { return Source(s); }), {static_cast<unsigned>(blocks), 128}, operands.a,
         operands.b, operands.bias, operands.sum, operands.d, static_cast<int32_t>(s.columns),
         static_cast<int32_t>(s.depth / width), s.a_pitch / width, s.d_pitch, operands.alpha);
}

std::vector<KernelSource> FewRowsSources() {
  ProductShape one, several;
  one.rows = 1;
  several.dtype = DType::kFloat16, several.result = DType::kFloat, several.rows = 4;
  several.has_bias = several.has_sum = true;
  several.after = ProductShape::After::kRelu;
  return {Source(one), Source(several)};
}

}  // namespace ferry::cuda
