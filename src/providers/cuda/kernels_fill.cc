// Kernels whose elements come from where they stand: fills, ranges, triangles, one-hot rows, places that are not 0.
#include <algorithm>

#include "providers/cuda/chain.h"
#include "providers/cuda/kernels_index.h"

namespace ferry::cuda {
namespace {

const char* BitsOf(DType type) {
  const int bits = BitWidth(type);
  return bits == 8 ? "uint8" : bits == 16 ? "uint16" : bits == 32 ? "uint32" : "uint64";
}

// One expression for each element: `i` is its place, others come as parameters.
constexpr char kFillSource[] = R"(
extern "C" __global__ void FillElements(const ELEMENT* x, const INDEX* indices, ELEMENT* y, int64 total, int64 a, int64 b,
                                        int64 c, uint64 bits, double start, double delta) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += int64(gridDim.x) * blockDim.x)
    y[i] = EXPRESSION;
}
)";

struct FillKind {
  const char* name;
  const char* expression;
};
// a: start, b: delta of integers.
constexpr FillKind kBits = {"bits", "ELEMENT(bits)"};
constexpr FillKind kWholeRange = {"whole range", "ELEMENT(uint64(a) + uint64(i) * uint64(b))"};
constexpr FillKind kRealRange = {"real range", "Stored<ELEMENT>::From(COMPUTE(start + double(i) * delta))"};
// a: rows, b: columns, c: the diagonal.
constexpr FillKind kUpper = {"upper", "i % b - i / b % a >= c ? x[i] : ELEMENT(0)"};
constexpr FillKind kLower = {"lower", "i % b - i / b % a <= c ? x[i] : ELEMENT(0)"};
// a: depth, b: inner.
constexpr FillKind kOneHot = {"one hot",
                              "x[(indices[i / b / a * b + i % b] < 0 ? int64(indices[i / b / a * b + i % b]) + a "
                              ": int64(indices[i / b / a * b + i % b])) == i / b % a]"};

KernelSource FillSource(const FillKind& kind, const char* element, const char* compute, const char* index) {
  return {"FillElements", Cat("#define ELEMENT ", element, "\n#define COMPUTE ", compute, "\n#define INDEX ", index,
                              "\n#define EXPRESSION ", kind.expression, kFillSource)};
}

struct FillNumbers {
  int64_t a = 0, b = 0, c = 0;
  uint64_t bits = 0;
  double start = 0, delta = 0;
};

void FillBy(const Device& device, const FillKind& kind, const char* element, const char* compute, const Tensor* x,
            const Tensor* indices, Tensor& y, const FillNumbers& numbers) {
  if (y.size() == 0) return;
  const char* index = indices ? TypeName(indices->dtype()) : "int64";
  const Function function = FindKernel(device, Cat("fill ", kind.name, " ", element, " ", index),
                                       [&] { return FillSource(kind, element, compute, index); });
  Launch(device, function, GridFor(device, y.size()), x ? x->address() : nullptr,
         indices ? indices->address() : nullptr, y.address(), y.size(), numbers.a, numbers.b, numbers.c, numbers.bits,
         numbers.start, numbers.delta);
}

// Each block looks at a stretch of its own: first only to count, then to write behind what others have.
constexpr char kNonZeroSource[] = R"(
struct Dims { int64 total, stretch; int32 rank, unused; int64 dims[8]; };
extern "C" __global__ void NonZero(const ELEMENT* x, int64* counts, int64* places, int64 all, const Dims how) {
  __shared__ int flags[33];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64 first = int64(blockIdx.x) * how.stretch;
  const int64 last = first + how.stretch < how.total ? first + how.stretch : how.total;
  int64 seen = places ? counts[blockIdx.x] : 0;
  for (int64 begin = first; begin < last; begin += blockDim.x) {
    const int64 i = begin + threadIdx.x;
    const bool is_set = i < last && Load(x[i]) != COMPUTE(0);
    const unsigned mask = __ballot_sync(FULL_WARP, is_set);
    __syncthreads();
    if (lane == 0) flags[warp] = __popc(mask);
    __syncthreads();
    int ahead = 0, whole = 0;
    for (int w = 0; w < blockDim.x / 32; ++w) {
      if (w < warp) ahead += flags[w];
      whole += flags[w];
    }
    if (places && is_set) {
      const int64 number = seen + ahead + __popc(mask & ((1u << lane) - 1));
      int64 rest = i;
      for (int axis = how.rank - 1; axis >= 0; --axis) {
        places[axis * all + number] = rest % how.dims[axis];
        rest /= how.dims[axis];
      }
    }
    seen += whole;
  }
  if (!places && threadIdx.x == 0) counts[blockIdx.x] = seen;
}
)";

struct Dims {
  int64_t total, stretch;
  int32_t rank, unused = 0;
  int64_t dims[8];
};

KernelSource NonZeroSource(DType type) {
  return {"NonZero",
          Cat("#define ELEMENT ", TypeName(type), "\n#define COMPUTE ", ComputeTypeName(type), kNonZeroSource)};
}

}  // namespace

void FindNonZero(const Device& device, const Tensor& x, FunctionRef<Tensor&(int64_t)> make) {
  constexpr int64_t kBlocks = 1024;
  Dims dims{x.size(), (x.size() + kBlocks - 1) / kBlocks, static_cast<int32_t>(x.rank()), 0, {}};
  std::copy_n(x.shape().begin(), x.rank(), dims.dims);
  if (x.size() == 0) return static_cast<void>(make(0));
  const int64_t blocks = (dims.total + dims.stretch - 1) / dims.stretch;
  const Function function = FindKernel(device, Cat("nonzero ", x.dtype()), [&] { return NonZeroSource(x.dtype()); });
  const Grid grid{static_cast<unsigned>(blocks), 256};
  Tensor counts(DType::kInt64, {blocks}, device.memory());
  const std::byte* none = nullptr;
  Launch(device, function, grid, x.address(), counts.address(), none, int64_t{0}, dims);
  Tensor begins = counts.In(HostMemory());
  int64_t all = 0;
  for (int64_t i = 0; i < blocks; ++i) all += std::exchange(begins.MutableData<int64_t>()[i], all);
  Tensor& places = make(all);
  device.memory().CopyFromHost(counts.address(), begins.raw(), begins.bytes());
  Launch(device, function, grid, x.address(), counts.address(), places.address(), all, dims);
}

void FillOneHot(const Device& device, const LineShape& line, const Tensor& indices, const Tensor& values, Tensor& y) {
  const char* element = BitsOf(values.dtype());
  FillBy(device, kOneHot, element, element, &values, &indices, y, {.a = line.count, .b = line.inner});
}

void TakeTriangle(const Device& device, bool upper, int64_t k, const Tensor& x, Tensor& y) {
  const char* element = BitsOf(x.dtype());
  FillBy(device, upper ? kUpper : kLower, element, element, &x, nullptr, y,
         {.a = x.dim(x.rank() - 2), .b = x.dim(x.rank() - 1), .c = k});
}

void Fill(const Device& device, uint64_t bits, Tensor& y) {
  const char* element = BitsOf(y.dtype());
  FillBy(device, kBits, element, element, nullptr, nullptr, y, {.bits = bits});
}

void FillRange(const Device& device, double start, double delta, int64_t whole_start, int64_t whole_delta, Tensor& y) {
  const bool is_real = IsFloating(y.dtype());
  FillBy(device, is_real ? kRealRange : kWholeRange, TypeName(y.dtype()), ComputeTypeName(y.dtype()), nullptr, nullptr,
         y, {.a = whole_start, .b = whole_delta, .start = start, .delta = delta});
}

std::vector<KernelSource> FillSources() {
  return {FillSource(kBits, "uint16", "uint16", "int64"),
          FillSource(kWholeRange, "int32", "int32", "int64"),
          FillSource(kRealRange, "half", "float", "int64"),
          FillSource(kUpper, "uint8", "uint8", "int64"),
          FillSource(kLower, "uint32", "uint32", "int64"),
          FillSource(kOneHot, "uint32", "uint32", "int32"),
          NonZeroSource(DType::kBool),
          NonZeroSource(DType::kFloat16)};
}

}  // namespace ferry::cuda
