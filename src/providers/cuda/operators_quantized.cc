// Quantised tensors: to integers and back, and products of bytes on tensor cores.
#include <algorithm>

#include "ops/support/scalar.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/operators.h"

namespace ferry::cuda {
namespace {

bool IsReal(DType type) { return type == DType::kFloat || type == DType::kFloat16 || type == DType::kBFloat16; }
bool IsQuantized(DType type) {
  return type == DType::kInt8 || type == DType::kUInt8 || type == DType::kInt16 || type == DType::kUInt16;
}

// Which scale belongs to which element: x is [outer, length, inner] around the axis, `block` neighbours along it share
// one; elements of a tensor that has a single scale have `steps` 0.
struct ScalePlaces {
  int64_t total = 0, length = 1, inner = 1, block = 1, blocks = 1, steps = 0;
};

std::optional<ScalePlaces> PlacesOf(const Node& node, const Shape& x, const Shape& scale) {
  ScalePlaces places;
  places.total = x.ElementCount();
  if (scale.ElementCount() == 1 && scale.rank() <= 1) return places;
  int64_t axis = node.Int("axis", 1);
  const auto rank = static_cast<int64_t>(x.rank());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  const auto at = static_cast<size_t>(axis);
  places.length = x[at];
  places.inner = x.CountBetween(at + 1, x.rank());
  places.steps = 1;
  const int64_t block = node.Int("block_size", 0);
  if (block == 0) {
    if (scale.rank() != 1 || scale[0] != x[at]) return std::nullopt;
    places.inner = std::max<int64_t>(1, places.inner);
    places.blocks = -1;  // a scale for each place along the axis, none beside it
    return places;
  }
  if (block < 0 || scale.rank() != x.rank() || scale[at] != (x[at] + block - 1) / block) return std::nullopt;
  for (size_t i = 0; i < x.rank(); ++i)
    if (i != at && scale[i] != x[i]) return std::nullopt;
  places.block = block;
  places.blocks = scale[at];
  return places;
}

constexpr char kPlaces[] = R"(
struct ScalePlaces { int64 total, length, inner, block, blocks, steps; };
__device__ inline int64 ScaleOf(int64 i, const ScalePlaces& how) {
  if (how.steps == 0) return 0;
  const int64 along = i / how.inner % how.length;
  if (how.blocks < 0) return along;
  return (i / how.inner / how.length * how.blocks + along / how.block) * how.inner + i % how.inner;
}
)";

constexpr char kQuantizeSource[] = R"(
extern "C" __global__ void Quantize(const ELEMENT* x, const SCALE* scale, const QUANTIZED* zeros, QUANTIZED* y,
                                    const ScalePlaces how) {
  const int64 first = int64(blockIdx.x) * blockDim.x + threadIdx.x, step = int64(gridDim.x) * blockDim.x;
#if TOGETHER > 1
  const float zero = zeros ? float(zeros[0]) : 0.0f, low = float(LOW) - zero, high = float(HIGH) - zero;
  for (int64 i = first; i < how.total / TOGETHER; i += step) {
    const Pack<ELEMENT, TOGETHER> from = reinterpret_cast<const Pack<ELEMENT, TOGETHER>*>(x)[i];
    Pack<QUANTIZED, TOGETHER> made;
#pragma unroll
    for (int j = 0; j < TOGETHER; ++j) {
      float value = Load(Stored<ROUNDED>::From(Load(from.at[j]) / Load(scale[0])));
      value = !(value > low) ? low : value > high ? high : value;
      made.at[j] = QUANTIZED(int(rintf(value) + zero));
    }
    reinterpret_cast<Pack<QUANTIZED, TOGETHER>*>(y)[i] = made;
  }
  return;
#endif
  for (int64 i = first; i < how.total; i += step) {
    const int64 place = ScaleOf(i, how);
    const float zero = zeros ? float(zeros[place]) : 0.0f, low = float(LOW) - zero, high = float(HIGH) - zero;
    float value = Load(Stored<ROUNDED>::From(Load(x[i]) / Load(scale[place])));
    value = !(value > low) ? low : value > high ? high : value;
    y[i] = QUANTIZED(int(rintf(value) + zero));
  }
}
)";

constexpr char kDequantizeSource[] = R"(
extern "C" __global__ void Dequantize(const QUANTIZED* x, const SCALE* scale, const QUANTIZED* zeros, ELEMENT* y,
                                      const ScalePlaces how) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < how.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 place = ScaleOf(i, how);
    y[i] = Stored<ELEMENT>::From(float(int64(x[i]) - (zeros ? int64(zeros[place]) : 0)) * Load(scale[place]));
  }
}
)";

// `together`: neighbours that a thread makes, where all have one scale.
KernelSource QuantizeSource(DType real, DType scale, DType quantized, int together = 1) {
  const int bits = BitWidth(quantized);
  const int low = IsSignedInteger(quantized) ? -(1 << (bits - 1)) : 0,
            high = (1 << (IsSignedInteger(quantized) ? bits - 1 : bits)) - 1;
  return {"Quantize", Cat("#define ELEMENT ", TypeName(real), "\n#define SCALE ", TypeName(scale), "\n#define ROUNDED ",
                          TypeName(scale), "\n#define QUANTIZED ", TypeName(quantized), "\n#define LOW ", low,
                          "\n#define HIGH ", high, "\n#define TOGETHER ", together, kPlaces, kQuantizeSource)};
}

KernelSource DequantizeSource(DType quantized, DType scale, DType real) {
  return {"Dequantize", Cat("#define ELEMENT ", TypeName(real), "\n#define SCALE ", TypeName(scale),
                            "\n#define QUANTIZED ", TypeName(quantized), kPlaces, kDequantizeSource)};
}

void RunLinear(const Device& device, OpContext& context, DType type, bool quantizes) {
  const Tensor &x = context.Input(0), &scale = context.Input(1);
  const Tensor* zeros = context.OptionalInput(2);
  Require(!zeros || zeros->shape() == scale.shape(), "the zero point has shape ", zeros ? zeros->shape() : Shape{},
          ", the scale ", scale.shape());
  const std::optional<ScalePlaces> places = PlacesOf(context.node(), x.shape(), scale.shape());
  Require(places.has_value(), "a scale of shape ", scale.shape(), " does not fit ", x.shape());
  Tensor& y = context.Output(0, type, x.shape());
  if (y.size() == 0) return;
  const DType from = x.dtype(), by = scale.dtype();
  const bool four = quantizes && places->steps == 0 && y.size() % 4 == 0 && x.IsAligned(16) && y.IsAligned(16);
  const Function function = FindKernel(device, Cat("linear ", quantizes, four, " ", from, " ", by, " ", type), [&] {
    return quantizes ? QuantizeSource(from, by, type, four ? 4 : 1) : DequantizeSource(from, by, type);
  });
  const std::byte* zero = zeros ? zeros->address() : nullptr;
  Launch(device, function, GridFor(device, y.size() / (four ? 4 : 1)), x.address(), scale.address(), zero, y.address(),
         *places);
}

std::optional<ChosenKernel> ChooseLinear(const OperatorRequest& request) {
  const bool quantizes = request.Is("QuantizeLinear");
  if (!quantizes && !request.Is("DequantizeLinear")) return std::nullopt;
  const DType from = request.TypeOf(0), scale = request.TypeOf(1), to = request.ResultType();
  const std::optional<Shape> x = request.ShapeOf(0), shape = request.ShapeOf(1);
  if (!x || !shape || !PlacesOf(request.node(), *x, *shape) || !IsReal(scale)) return std::nullopt;
  if (request.Has(2) && (request.TypeOf(2) != (quantizes ? to : from) || request.ShapeOf(2) != shape))
    return std::nullopt;
  if (quantizes ? !IsReal(from) || !IsQuantized(to) || request.node().Has("precision")
                : !(IsQuantized(from) || from == DType::kInt32) || !IsReal(to))
    return std::nullopt;
  return OnDevice(request, quantizes ? "quantize" : "dequantize",
                  [=](const Device& device, OpContext& context) { RunLinear(device, context, to, quantizes); });
}

// The range of all elements, and 0, as keys that are ordered as the floats are; then scale, zero point and bytes.
constexpr char kRangeSource[] = R"(
__device__ inline int KeyOf(float x) { const int bits = __float_as_int(x); return bits < 0 ? bits ^ 0x7fffffff : bits; }
__device__ inline float NumberOf(int key) { return __int_as_float(key < 0 ? key ^ 0x7fffffff : key); }
extern "C" __global__ void FindRange(const float* x, int* range, int64 total) {
  int low = 0, high = 0;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += int64(gridDim.x) * blockDim.x) {
    const float value = x[i];
    if (value != value) continue;
    low = min(low, KeyOf(value));
    high = max(high, KeyOf(value));
  }
  for (int step = 16; step > 0; step /= 2) {
    low = min(low, __shfl_xor_sync(FULL_WARP, low, step));
    high = max(high, __shfl_xor_sync(FULL_WARP, high, step));
  }
  if (threadIdx.x % 32 == 0) {
    atomicMin(range, low);
    atomicMax(range + 1, high);
  }
}
__device__ inline float Cut(float value) { return !(value > 0.0f) ? 0.0f : value > 255.0f ? 255.0f : value; }
extern "C" __global__ void QuantizeRange(const float* x, const int* range, uint8* y, float* scale, uint8* zero,
                                         int64 total) {
  const float low = NumberOf(range[0]), high = NumberOf(range[1]);
  const float factor = high == low ? 1.0f : (high - low) / 255.0f;
  const float point = rintf(Cut(-low / factor));
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += int64(gridDim.x) * blockDim.x)
    y[i] = uint8(Cut(rintf(x[i] / factor) + point));
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale = factor, *zero = uint8(point);
}
)";

void RunDynamic(const Device& device, OpContext& context) {
  const Tensor& x = context.Input(0);
  Tensor& y = context.Output(0, DType::kUInt8, x.shape());
  Tensor& scale = context.Output(1, DType::kFloat, {});
  Tensor& zero = context.Output(2, DType::kUInt8, {});
  Tensor range(DType::kInt32, {2}, device.memory());
  CheckDriver(
      device.Use().MemsetD8Async(reinterpret_cast<DeviceAddress>(range.address()), 0, range.bytes(), device.stream()),
      "cuMemsetD8Async");
  auto find = [&](const char* name) {
    return FindKernel(device, Cat("dynamic ", name), [&] { return KernelSource{name, kRangeSource}; });
  };
  const Grid grid = GridFor(device, std::max<int64_t>(1, x.size()));
  Launch(device, find("FindRange"), grid, x.address(), range.address(), x.size());
  Launch(device, find("QuantizeRange"), grid, x.address(), range.address(), y.address(), scale.address(),
         zero.address(), x.size());
}

// Bytes times bytes by the tensor cores' integer instruction: A [rows, depth], B [columns, depth]. A warp makes 32 × 8
// · TILES sums. What zero points take away is added up on the way.
constexpr char kByteProductSource[] = R"(
__device__ inline void MultiplyAdd(int (&d)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." A_KIND "." B_KIND ".s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Four bytes of a row from `at` on; 0 beyond its end.
__device__ inline uint32 FourOf(const uint8* row, int64 at, int64 depth, bool is_inside) {
  if (!is_inside || at >= depth) return 0;
  if (IS_ALIGNED) return *reinterpret_cast<const uint32*>(row + at);
  uint32 four = 0;
  for (int i = 0; i < 4 && at + i < depth; ++i) four |= uint32(row[at + i]) << (8 * i);
  return four;
}
extern "C" __global__ void MultiplyBytes(const uint8* a, const uint8* b, const A_TYPE* a_zero, const B_TYPE* b_zeros,
                                         const int* b_sums, int* d, int64 rows, int64 columns, int64 depth,
                                         int b_zero_step) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, member = lane % 4;
  const int64 first_row = (int64(blockIdx.y) * (blockDim.x / 32) + warp) * 32, first_column = int64(blockIdx.x) * (8 * TILES);
  if (first_row >= rows) return;
  int sums[2][TILES][4] = {};
  int row_sums[4] = {};
#pragma unroll 4
  for (int64 k = 0; k < depth; k += 32) {
    uint32 left[2][4];
    for (int m = 0; m < 2; ++m)
      for (int part = 0; part < 4; ++part) {
        const int64 row = first_row + m * 16 + part % 2 * 8 + group, at = k + part / 2 * 16 + member * 4;
        left[m][part] = FourOf(a + row * depth, at, depth, row < rows);
        row_sums[m * 2 + part % 2] += A_SUM(left[m][part]);
      }
    for (int n = 0; n < TILES; ++n) {
      const int64 column = first_column + n * 8 + group;
      const uint32 b0 = FourOf(b + column * depth, k + member * 4, depth, column < columns);
      const uint32 b1 = FourOf(b + column * depth, k + 16 + member * 4, depth, column < columns);
      for (int m = 0; m < 2; ++m) MultiplyAdd(sums[m][n], left[m], b0, b1);
    }
  }
  for (int i = 0; i < 4; ++i)
    for (int step = 1; step < 4; step *= 2) row_sums[i] += __shfl_xor_sync(FULL_WARP, row_sums[i], step);
  const int zero_a = a_zero ? int(*a_zero) : 0;
  for (int m = 0; m < 2; ++m)
    for (int n = 0; n < TILES; ++n)
      for (int part = 0; part < 4; ++part) {
        const int64 row = first_row + m * 16 + part / 2 * 8 + group, column = first_column + n * 8 + member * 2 + part % 2;
        if (row >= rows || column >= columns) continue;
        const int zero_b = b_zeros ? int(b_zeros[column * b_zero_step]) : 0;
        d[row * columns + column] = sums[m][n][part] - zero_a * b_sums[column] - zero_b * row_sums[m * 2 + part / 2] +
                                    zero_a * zero_b * int(depth);
      }
}
)";

constexpr char kColumnSumsSource[] = R"(
extern "C" __global__ void ColumnSums(const B_TYPE* b, int* sums, int64 columns, int64 depth) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < columns; i += int64(gridDim.x) * blockDim.x) {
    int sum = 0;
    for (int64 k = 0; k < depth; ++k) sum += int(b[i * depth + k]);
    sums[i] = sum;
  }
}
)";

// `tiles`: of 8 columns, for each warp.
KernelSource ByteProductSource(DType a, DType b, bool aligned, int tiles) {
  const bool a_signed = a == DType::kInt8, b_signed = b == DType::kInt8;
  return {"MultiplyBytes", Cat("#define A_TYPE ", TypeName(a), "\n#define B_TYPE ", TypeName(b), "\n#define A_KIND \"",
                               a_signed ? "s8" : "u8", "\"\n#define B_KIND \"", b_signed ? "s8" : "u8",
                               "\"\n#define IS_ALIGNED ", aligned, "\n#define TILES ", tiles, "\n#define A_SUM(four) ",
                               a_signed ? "__dp4a(int(four), 0x01010101, 0)" : "int(__dp4a(four, 0x01010101u, 0u))",
                               kByteProductSource)};
}

KernelSource ColumnSumsSource(DType b) {
  return {"ColumnSums", Cat("#define B_TYPE ", TypeName(b), kColumnSumsSource)};
}

// A constant right side as [columns, depth], and the sums of its columns.
struct ByteMatrix {
  Tensor turned, sums;
};

ByteMatrix TurnedBytes(const Device& device, const Tensor& b) {
  const Tensor there = b.In(device.memory());
  ByteMatrix made{Tensor(b.dtype(), {b.dim(1), b.dim(0)}, device.memory()),
                  Tensor(DType::kInt32, {b.dim(1)}, device.memory())};
  CopyWalk(device, {{b.dim(1), b.dim(0)}, {1, b.dim(1)}, {b.dim(0), 1}}, 1, there.address(), made.turned.address());
  const Function function =
      FindKernel(device, Cat("column sums ", b.dtype()), [&] { return ColumnSumsSource(b.dtype()); });
  Launch(device, function, GridFor(device, b.dim(1)), made.turned.address(), made.sums.address(), b.dim(1), b.dim(0));
  device.Synchronize();  // `there` ends here, and other threads will read
  return made;
}

void RunBytes(const Device& device, OpContext& context, const ByteMatrix& b, DType b_type) {
  const Tensor& a = context.Input(0);
  const Tensor *a_zero = context.OptionalInput(2), *b_zeros = context.OptionalInput(3);
  const int64_t depth = b.turned.dim(1), columns = b.turned.dim(0);
  Require(a.rank() >= 1 && a.shape().back() == depth, "inner sizes differ: ", a.shape(), " × ", Shape{depth, columns});
  Shape shape = a.shape();
  shape.back() = columns;
  Tensor& y = context.Output(0, DType::kInt32, shape);
  if (y.size() == 0) return;
  const int64_t rows = y.size() / columns;
  const bool aligned = depth % 4 == 0 && a.IsAligned(4) && b.turned.IsAligned(4);
  // Small products are cut finely, so that every multiprocessor has some of it.
  const bool is_small = rows * columns < int64_t{device.facts().multiprocessors} * 4 * 32 * 64;
  const int tiles = is_small ? 2 : 8;
  const unsigned threads = is_small ? 32 : 128;
  const Function function = FindKernel(device, Cat("bytes ", a.dtype(), b_type, aligned, tiles),
                                       [&] { return ByteProductSource(a.dtype(), b_type, aligned, tiles); });
  const Grid grid{.blocks = static_cast<unsigned>((columns + 8 * tiles - 1) / (8 * tiles)),
                  .threads = threads,
                  .blocks_y = static_cast<unsigned>((rows + threads - 1) / threads)};
  const std::byte *zero = a_zero ? a_zero->address() : nullptr, *zeros = b_zeros ? b_zeros->address() : nullptr;
  Launch(device, function, grid, a.address(), b.turned.address(), zero, zeros, b.sums.address(), y.address(), rows,
         columns, depth, b_zeros && b_zeros->size() > 1 ? 1 : 0);
}

std::optional<ChosenKernel> ChooseBytes(const OperatorRequest& request) {
  const Tensor* b = request.Constant(1);
  const DType type = request.TypeOf(0);
  const std::optional<Shape> a = request.ShapeOf(0);
  auto is_byte = [](DType t) { return t == DType::kInt8 || t == DType::kUInt8; };
  if (!request.Is("MatMulInteger") || !b || !a || a->rank() < 1 || b->rank() != 2 || b->size() == 0)
    return std::nullopt;
  if (!is_byte(type) || !is_byte(b->dtype()) || a->back() != b->dim(0) || b->dim(0) > (1 << 16)) return std::nullopt;
  constexpr int64_t kMostRows = int64_t{65535} * 32;  // of the grid's second axis
  if (a->ElementCount() / std::max<int64_t>(1, a->back()) > kMostRows) return std::nullopt;
  const std::optional<Shape> a_zero = request.ShapeOf(2), b_zero = request.ShapeOf(3);
  if (request.Has(2) && (!a_zero || a_zero->ElementCount() != 1)) return std::nullopt;
  if (request.Has(3) &&
      (!b_zero || b_zero->rank() > 1 || (b_zero->ElementCount() != 1 && b_zero->ElementCount() != b->dim(1))))
    return std::nullopt;
  const Device* device = request.settings.device;
  if (device && device->facts().compute_major < 8) return std::nullopt;
  std::shared_ptr<const ByteMatrix> matrix;
  if (device)
    matrix = request.request.weights.Get<ByteMatrix>(*b, "bytes in cuda", [&] { return TurnedBytes(*device, *b); });
  return OnDevice(
      request, "tensor cores, int8",
      [matrix, b_type = b->dtype()](const Device& on, OpContext& context) { RunBytes(on, context, *matrix, b_type); },
      InputBit(1), InputBit(1));
}

}  // namespace

std::vector<KernelSource> QuantizedSources() {
  return {QuantizeSource(DType::kFloat, DType::kFloat, DType::kInt8),
          QuantizeSource(DType::kFloat16, DType::kFloat16, DType::kUInt16),
          DequantizeSource(DType::kUInt8, DType::kFloat, DType::kFloat),
          DequantizeSource(DType::kInt32, DType::kBFloat16, DType::kBFloat16),
          {"FindRange", kRangeSource},
          ByteProductSource(DType::kUInt8, DType::kInt8, true, 8),
          ByteProductSource(DType::kInt8, DType::kUInt8, false, 2),
          ColumnSumsSource(DType::kInt8)};
}

std::optional<ChosenKernel> ChooseQuantized(const OperatorRequest& request) {
  if (std::optional<ChosenKernel> chosen = ChooseLinear(request)) return chosen;
  if (request.Is("DynamicQuantizeLinear") && request.TypeOf(0) == DType::kFloat)
    return OnDevice(request, "quantize", RunDynamic);
  return ChooseBytes(request);
}

}  // namespace ferry::cuda
