#include "providers/cuda/product.h"

#include "base/error.h"
#include "base/text.h"

namespace ferry::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

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
                shape.b_pitch, shape.b_stride);
    a_ = Layout(shape.a_transposed ? shape.rows : shape.depth, shape.a_transposed ? shape.depth : shape.rows,
                shape.a_pitch, shape.a_stride);
    d_ = Layout(shape.columns, shape.rows, shape.d_pitch, shape.d_stride);
    Choose();
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  void Run(const Device& device, const ProductOperands& operands) {
    const double alpha_double = operands.alpha, beta_double = shape_.has_sum;
    const float alpha = operands.alpha, beta = shape_.has_sum;
    const bool is_double = shape_.dtype == DType::kDouble;
    const void* sum = shape_.has_sum ? operands.sum : operands.d;
    std::byte* workspace = chosen_.workspace_bytes > 0 ? device.Workspace(chosen_.workspace_bytes) : nullptr;
    std::lock_guard lock(mutex_);  // the bias is part of the description
    if (shape_.has_bias) Set(kLtBiasPointer, operands.bias);
    Check(lt_.Matmul(handle_, matmul_, is_double ? static_cast<const void*>(&alpha_double) : &alpha, operands.b, b_,
                     operands.a, a_, is_double ? static_cast<const void*>(&beta_double) : &beta, sum, d_, operands.d,
                     d_, &chosen_.algorithm, workspace, chosen_.workspace_bytes, device.stream()),
          "cublasLtMatmul", shape_);
  }

 private:
  template <class T>
  void Set(int attribute, T value) {
    Check(lt_.MatmulDescSet(matmul_, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute", shape_);
  }

  LtLayout Layout(int64_t rows, int64_t columns, int64_t pitch, int64_t stride) {
    LtLayout layout = nullptr;
    Check(lt_.LayoutCreate(&layout, LtType(shape_.dtype), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                           pitch),
          "cublasLtMatrixLayoutCreate", shape_);
    const auto batch = static_cast<int32_t>(shape_.batch);
    Check(lt_.LayoutSet(layout, kLtBatchCount, &batch, sizeof batch), "cublasLtMatrixLayoutSetAttribute", shape_);
    Check(lt_.LayoutSet(layout, kLtBatchStride, &stride, sizeof stride), "cublasLtMatrixLayoutSetAttribute", shape_);
    return layout;
  }

  void Choose() {
    LtPreference preference = nullptr;
    Check(lt_.PreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate", shape_);
    const uint64_t bytes = kWorkspaceBytes;
    lt_.PreferenceSet(preference, kLtWorkspaceBytes, &bytes, sizeof bytes);
    for (int operand = 0; operand < 4; ++operand)
      lt_.PreferenceSet(preference, kLtAlignment + operand, &shape_.alignment, sizeof shape_.alignment);
    int found = 0;
    const int status = lt_.GetHeuristic(handle_, matmul_, b_, a_, d_, d_, preference, 1, &chosen_, &found);
    lt_.PreferenceDestroy(preference);
    Check(status, "cublasLtMatmulAlgoGetHeuristic", shape_);
    if (found == 0 || chosen_.state != kSuccess)
      Fail(ErrorCode::kUnsupported, "cuBLASLt has no algorithm for ", ToText(shape_));
  }

  const ProductShape shape_;
  LtHandle handle_;
  const CublasLtApi& lt_;
  LtMatmul matmul_ = nullptr;
  LtLayout a_ = nullptr, b_ = nullptr, d_ = nullptr;
  LtHeuristic chosen_{};
  std::mutex mutex_;
};

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
  uintptr_t bits = 256;
  for (const std::byte* address :
       {operands.a, operands.b, shape.has_sum ? operands.sum : nullptr, static_cast<const std::byte*>(operands.d)})
    bits |= reinterpret_cast<uintptr_t>(address);
  ProductShape aligned = shape;
  aligned.alignment = static_cast<uint32_t>(bits & -bits);
  PlansOf(device).Find(aligned).Run(device, operands);
}

}  // namespace ferry::cuda
