#include "providers/cuda/product.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "providers/cuda/chain.h"
#include "providers/cuda/choices.h"
#include "providers/cuda/few_rows.h"
#include "tensor/tensor.h"

namespace ferry::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr int kMostWays = 24;

int LtType(DType type) {
  switch (type) {
    case DType::kFloat: return kRealFloat;
    case DType::kDouble: return kRealDouble;
    case DType::kFloat16: return kRealHalf;
    default: return kRealBfloat16;
  }
}

std::string ToText(const ProductShape& shape) {
  return Cat(ferry::ToText(shape.dtype), " ", shape.batch, " × [", shape.rows, ", ", shape.depth, "] · [", shape.depth,
             ", ", shape.columns, "]");
}

void Check(int status, const char* function, const ProductShape& shape) {
  if (status == kSuccess) return;
  const char* name = CublasLt().api.GetStatusName(status);
  Fail(ErrorCode::kInternal, function, ": ", name ? name : "unknown status", " for ", ToText(shape));
}

// cuBLASLt thinks in columns: a row-major matrix is its transpose there, so D' = B' · A'.
class Plan {
 public:
  Plan(const ProductShape& shape, LtHandle handle) : shape_(shape), handle_(handle), lt_(CublasLt().Get()) {
    const bool is_double = shape.dtype == DType::kDouble;
    const int compute = is_double ? kCompute64F : shape.tf32 ? kCompute32FTf32 : kCompute32F;
    Check(lt_.MatmulDescCreate(&matmul_, compute, is_double ? kRealDouble : kRealFloat), "cublasLtMatmulDescCreate",
          shape);
    Set(kLtTransA, int32_t{shape.b_transposed});
    Set(kLtTransB, int32_t{shape.a_transposed});
    int32_t epilogue = shape.has_bias ? kLtEpilogueBias : kLtEpilogueDefault;
    const int32_t bias = shape.has_bias ? kLtEpilogueBias : 0;
    if (shape.after == ProductShape::After::kRelu) epilogue = kLtEpilogueRelu | bias;
    if (shape.after == ProductShape::After::kGelu) epilogue = kLtEpilogueGelu | bias;
    Set(kLtEpilogue, epilogue);
    b_ = Layout(shape.b_transposed ? shape.depth : shape.columns, shape.b_transposed ? shape.columns : shape.depth,
                shape.b_pitch, shape.b_stride, shape.dtype);
    a_ = Layout(shape.a_transposed ? shape.rows : shape.depth, shape.a_transposed ? shape.depth : shape.rows,
                shape.a_pitch, shape.a_stride, shape.dtype);
    d_ = Layout(shape.columns, shape.rows, shape.d_pitch, shape.d_stride, shape.made());
    FindWays();
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  void Run(const Device& device, const ProductOperands& operands) {
    std::lock_guard lock(mutex_);  // the bias is part of the description
    if (shape_.has_bias) Set(kLtBiasPointer, operands.bias);
    int way = way_;
    if (way < 0) {
      way = Choose(device, operands);
      if (!device.recording()) way_ = way;
    }
    RunWay(device, ways_[static_cast<size_t>(way)], operands);
  }

 private:
  void RunWay(const Device& device, const LtHeuristic& way, const ProductOperands& operands) {
    const double alpha_double = operands.alpha, beta_double = shape_.has_sum;
    const float alpha = operands.alpha, beta = shape_.has_sum;
    const bool is_double = shape_.dtype == DType::kDouble;
    const void* sum = shape_.has_sum ? operands.sum : operands.d;
    std::byte* workspace = way.workspace_bytes > 0 ? device.Workspace(way.workspace_bytes) : nullptr;
    Check(lt_.Matmul(handle_, matmul_, is_double ? static_cast<const void*>(&alpha_double) : &alpha, operands.b, b_,
                     operands.a, a_, is_double ? static_cast<const void*>(&beta_double) : &beta, sum, d_, operands.d,
                     d_, &way.algorithm, workspace, way.workspace_bytes, device.stream()),
          "cublasLtMatmul", shape_);
  }

  // The fastest, timed with another result: the sum may lie where the result will.
  int Choose(const Device& device, const ProductOperands& operands) {
    const auto count = static_cast<int>(ways_.size());
    if (count == 1 || device.recording()) return 0;
    const int64_t last = (shape_.batch - 1) * shape_.d_stride + (shape_.rows - 1) * shape_.d_pitch + shape_.columns;
    Tensor scratch(shape_.made(), {last}, device.memory());
    ProductOperands timed = operands;
    timed.d = scratch.address();
    return Choices::Of(device).Fastest(
        device, Describe(), count, [&](int i) { RunWay(device, ways_[static_cast<size_t>(i)], timed); },
        [&](int i) { return ways_[static_cast<size_t>(i)].workspace_bytes; });
  }

  std::string Describe() const {
    const ProductShape& s = shape_;
    return Cat("product ", ToText(s), s.a_transposed ? " a'" : "", s.b_transposed ? " b'" : "", " strides ", s.a_stride,
               " ", s.b_stride, " ", s.d_stride, " pitches ", s.a_pitch, " ", s.b_pitch, " ", s.d_pitch,
               s.has_bias ? " bias" : "", s.has_sum ? " sum" : "", " after ", static_cast<int>(s.after),
               s.tf32 ? " tf32" : "", s.made() == s.dtype ? "" : " to float32", " aligned ", s.alignment);
  }

  template <class T>
  void Set(int attribute, T value) {
    Check(lt_.MatmulDescSet(matmul_, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute", shape_);
  }

  LtLayout Layout(int64_t rows, int64_t columns, int64_t pitch, int64_t stride, DType type) {
    LtLayout layout = nullptr;
    Check(lt_.LayoutCreate(&layout, LtType(type), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), pitch),
          "cublasLtMatrixLayoutCreate", shape_);
    const auto batch = static_cast<int32_t>(shape_.batch);
    Check(lt_.LayoutSet(layout, kLtBatchCount, &batch, sizeof batch), "cublasLtMatrixLayoutSetAttribute", shape_);
    Check(lt_.LayoutSet(layout, kLtBatchStride, &stride, sizeof stride), "cublasLtMatrixLayoutSetAttribute", shape_);
    return layout;
  }

  void FindWays() {
    LtPreference preference = nullptr;
    Check(lt_.PreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate", shape_);
    const uint64_t bytes = kWorkspaceBytes;
    lt_.PreferenceSet(preference, kLtWorkspaceBytes, &bytes, sizeof bytes);
    for (int operand = 0; operand < 4; ++operand)
      lt_.PreferenceSet(preference, kLtAlignment + operand, &shape_.alignment, sizeof shape_.alignment);
    int found = 0;
    ways_.resize(kMostWays);
    const int status = lt_.GetHeuristic(handle_, matmul_, b_, a_, d_, d_, preference, kMostWays, ways_.data(), &found);
    lt_.PreferenceDestroy(preference);
    Check(status, "cublasLtMatmulAlgoGetHeuristic", shape_);
    ways_.resize(static_cast<size_t>(std::clamp(found, 0, kMostWays)));
    std::erase_if(ways_, [](const LtHeuristic& way) { return way.state != kSuccess; });
    if (ways_.empty()) Fail(ErrorCode::kUnsupported, "cuBLASLt has no algorithm for ", ToText(shape_));
  }

  const ProductShape shape_;
  LtHandle handle_;
  const CublasLtApi& lt_;
  LtMatmul matmul_ = nullptr;
  LtLayout a_ = nullptr, b_ = nullptr, d_ = nullptr;
  std::vector<LtHeuristic> ways_;  // as the heuristic orders them
  int way_ = -1;
  std::mutex mutex_;
};

constexpr int64_t kPlaceThreads = 256;

// Read 16 bytes at a time, written element by element: rows of the result begin anywhere.
constexpr char kPlaceSource[] = R"(
extern "C" __global__ void PlaceRows(const FROM* from, TO* to, int64 rows, int64 columns, int64 from_pitch,
                                     int64 to_pitch) {
  constexpr int kEach = 16 / sizeof(FROM);
  __shared__ Pack<FROM, kEach> held[THREADS];
  const int64 first = int64(blockIdx.x) * THREADS * kEach, mine = first + threadIdx.x * kEach;
  for (int64 row = blockIdx.y; row < rows; row += gridDim.y) {
    __syncthreads();
    if (mine < from_pitch)
      held[threadIdx.x] = *reinterpret_cast<const Pack<FROM, kEach>*>(from + row * from_pitch + mine);
    __syncthreads();
    TO* line = to + row * to_pitch + first;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int column = k * THREADS + threadIdx.x;
      if (first + column < columns)
        line[column] = Stored<TO>::From(Load(reinterpret_cast<const FROM*>(held)[column]));
    }
  }
}
)";

KernelSource PlaceSource(DType from, DType to) {
  return {"PlaceRows", Cat("#define THREADS ", kPlaceThreads, "\n#define FROM ", TypeName(from), "\n#define TO ",
                           TypeName(to), kPlaceSource)};
}

// Through rows that begin at multiples of 16 bytes, `together` columns at a time. `all`: columns with those of zeros.
void MultiplyPadded(const Device& device, const ProductShape& whole, const ProductOperands& given, int64_t all,
                    int64_t together) {
  const int64_t each = 16 * 8 / BitWidth(whole.dtype), pitch = (together + each - 1) / each * each;
  const int64_t bytes = BitWidth(whole.dtype) / 8, made_bytes = BitWidth(whole.made()) / 8;
  Tensor padded(whole.dtype, {whole.rows, pitch}, device.memory());
  ProductShape shape = whole;
  shape.result = DType::kUndefined;
  shape.d_pitch = pitch;
  ProductOperands operands = given;
  operands.d = padded.address();
  const Function place = FindKernel(device, Cat("place rows ", whole.dtype, whole.made()),
                                    [&] { return PlaceSource(whole.dtype, whole.made()); });
  for (int64_t first = 0; first < whole.columns; first += together) {
    shape.columns = std::min(together, all - first);
    operands.b = given.b + first * shape.b_pitch * bytes;
    if (given.bias) operands.bias = given.bias + first * bytes;
    Multiply(device, shape, operands);
    const int64_t columns = std::min(together, whole.columns - first), span = kPlaceThreads * each;
    const Grid grid{static_cast<unsigned>((columns + span - 1) / span), kPlaceThreads, 0,
                    static_cast<unsigned>(std::min<int64_t>(whole.rows, 65535))};
    Launch(device, place, grid, static_cast<const std::byte*>(operands.d), given.d + first * made_bytes, whole.rows,
           columns, pitch, whole.d_pitch);
  }
}

// So many columns that what is made of them stays in the device's cache until it is placed.
int64_t ColumnsInCache(const ProductShape& shape) {
  constexpr int64_t kCache = int64_t{32} << 20, kStep = 256;
  return std::max<int64_t>(1024, kCache / (shape.rows * BitWidth(shape.dtype) / 8) / kStep * kStep);
}

// Of one device; stays until the process ends.
struct Plans {
  std::mutex mutex;
  LtHandle handle = nullptr;
  std::map<ProductShape, std::unique_ptr<Plan>> by_shape;

  Plan& Find(const ProductShape& shape) {
    std::lock_guard lock(mutex);
    if (!handle) Check(CublasLt().Get().Create(&handle), "cublasLtCreate", shape);
    std::unique_ptr<Plan>& plan = by_shape[shape];
    if (!plan) {
      try {
        plan = std::make_unique<Plan>(shape, handle);
      } catch (...) {
        by_shape.erase(shape);
        throw;
      }
    }
    return *plan;
  }
};

Plans& PlansOf(const Device& device) {
  static std::mutex mutex;
  static std::map<int, Plans*> all;
  std::lock_guard lock(mutex);
  Plans*& plans = all[device.facts().ordinal];
  if (!plans) plans = new Plans;
  return *plans;
}

}  // namespace

bool CanMultiply(DType type) {
  return type == DType::kFloat || type == DType::kDouble || type == DType::kFloat16 || type == DType::kBFloat16;
}

void Multiply(const Device& device, const ProductShape& shape, const ProductOperands& operands) {
  if (shape.rows == 0 || shape.columns == 0 || shape.batch == 0) return;
  device.Use();
  if (TakesFewRows(shape, operands)) return MultiplyFewRows(device, shape, operands);
  uintptr_t bits = 256;
  for (const std::byte* address :
       {operands.a, operands.b, shape.has_sum ? operands.sum : nullptr, static_cast<const std::byte*>(operands.d)})
    bits |= reinterpret_cast<uintptr_t>(address);
  ProductShape aligned = shape;
  aligned.alignment = static_cast<uint32_t>(bits & -bits);
  PlansOf(device).Find(aligned).Run(device, operands);
}

void MultiplyAnywhere(const Device& device, const ProductShape& shape, const ProductOperands& operands,
                      int64_t columns_of_b) {
  constexpr int64_t kSmall = 1 << 16, kMostPadded = int64_t{1} << 30;
  const int64_t size = shape.rows * shape.columns, all = std::max(shape.columns, columns_of_b);
  const bool aligned = shape.d_pitch * BitWidth(shape.dtype) % 128 == 0 && shape.made() == shape.dtype;
  const bool plain = shape.batch == 1 && !shape.has_sum && shape.d_pitch == shape.columns && shape.b_transposed;
  if (aligned || !plain || TakesFewRows(shape, operands) || size < kSmall || size > kMostPadded ||
      shape.columns > INT32_MAX / 2)
    return Multiply(device, shape, operands);
  const std::string key = Cat("place of ", ToText(shape), " in ", all, shape.has_bias ? " bias" : "", " ",
                              static_cast<int>(shape.after), shape.tf32 ? " tf32" : "", " to ", shape.made());
  const int64_t in_cache = ColumnsInCache(shape);
  const auto run = [&](int way) {
    if (way == 0) return Multiply(device, shape, operands);
    MultiplyPadded(device, shape, operands, all, way == 1 ? all : in_cache);
  };
  run(Choices::Of(device).Fastest(device, key, in_cache < all ? 3 : 2, run));
}

std::vector<KernelSource> ProductSources() {
  return {PlaceSource(DType::kFloat16, DType::kFloat), PlaceSource(DType::kFloat, DType::kFloat)};
}

}  // namespace ferry::cuda
