#include "providers/cuda/rotary.h"

#include "base/text.h"
#include "providers/cuda/chain.h"

namespace ferry::cuda {
namespace {

constexpr size_t kOuter = 4;

constexpr char kSource[] = R"(
struct Rows { int64 pairs; int32 half, width; int64 dims[4], x[4], cosines[4], sines[4]; };
extern "C" __global__ void Rotary(const ELEMENT* x, const ELEMENT* cosines, const ELEMENT* sines, ELEMENT* y,
                                  const Rows rows) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows.pairs; i += int64(gridDim.x) * blockDim.x) {
    const int64 row = i / rows.half;
    const int32 pair = int32(i - row * rows.half);
    int64 rest = row, from = 0, c = 0, s = 0;
#pragma unroll
    for (int axis = 3; axis >= 0; --axis) {
      const int64 at = rest % rows.dims[axis];
      rest /= rows.dims[axis];
      from += at * rows.x[axis];
      c += at * rows.cosines[axis];
      s += at * rows.sines[axis];
    }
    const int32 first = INTERLEAVED ? 2 * pair : pair, second = INTERLEAVED ? 2 * pair + 1 : pair + rows.half;
    const bool wide = rows.width != rows.half;
    const int32 angle = wide ? first : pair, other = wide ? second : pair;
    const float a = Load(x[from + first]), b = Load(x[from + second]);
    const int64 to = row * 2 * rows.half;
    y[to + first] = Stored<ELEMENT>::From(a * Load(cosines[c + angle]) - b * Load(sines[s + angle]));
    y[to + second] = Stored<ELEMENT>::From(b * Load(cosines[c + other]) + a * Load(sines[s + other]));
  }
}
)";

struct Rows {
  int64_t pairs;
  int32_t half, width;
  int64_t dims[kOuter], x[kOuter], cosines[kOuter], sines[kOuter];
};

KernelSource Source(DType type, bool interleaved) {
  return {"Rotary", Cat("#define ELEMENT ", TypeName(type), "\n#define INTERLEAVED ", interleaved, kSource)};
}

// Elements between neighbours along the outer axes of y; 0 where the operand repeats.
void FillStrides(const Shape& shape, int64_t* strides) {
  const std::vector<int64_t> own = shape.Strides();
  for (size_t i = 0; i + 1 < shape.rank(); ++i) strides[kOuter - (shape.rank() - 1) + i] = shape[i] == 1 ? 0 : own[i];
}

}  // namespace

bool CanRotate(const Shape& x, const Shape& cosines, const Shape& sines) {
  for (const Shape* shape : {&x, &cosines, &sines})
    if (shape->rank() < 1 || shape->rank() > kOuter + 1) return false;
  const int64_t count = x.back(), width = cosines.back();
  return count % 2 == 0 && count > 0 && count <= INT32_MAX && (width == count || 2 * width == count) &&
         sines.back() == width;
}

void Rotate(const Device& device, bool interleaved, const Tensor& x, const Tensor& cosines, const Tensor& sines,
            Tensor& y) {
  if (y.size() == 0) return;
  Rows rows{};
  rows.half = static_cast<int32_t>(y.shape().back() / 2);
  rows.width = static_cast<int32_t>(cosines.shape().back());
  rows.pairs = y.size() / 2;
  for (size_t i = 0; i < kOuter; ++i) rows.dims[i] = 1;
  for (size_t i = 0; i + 1 < y.rank(); ++i) rows.dims[kOuter - (y.rank() - 1) + i] = y.dim(i);
  FillStrides(x.shape(), rows.x);
  FillStrides(cosines.shape(), rows.cosines);
  FillStrides(sines.shape(), rows.sines);
  Launch(device,
         FindKernel(device, Cat("rotary ", x.dtype(), interleaved), [&] { return Source(x.dtype(), interleaved); }),
         GridFor(device, rows.pairs, 128), x.address(), cosines.address(), sines.address(), y.address(), rows);
}

std::vector<KernelSource> RotarySources() { return {Source(DType::kFloat, true), Source(DType::kFloat16, false)}; }

}  // namespace ferry::cuda
