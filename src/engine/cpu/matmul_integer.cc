// MatMulInteger with a constant matrix, packed once, and DynamicQuantizeLinear.
#include <algorithm>
#include <cmath>

#include "engine/cpu/kernels.h"
#include "engine/cpu/scratch.h"
#include "engine/weight_cache.h"
#include "kernels/int8_gemm.h"
#include "ops/support/quantized.h"

namespace ferry {
namespace {

constexpr int64_t kPieceWork = 1 << 21;

class IntegerMatMul final : public Kernel {
 public:
  IntegerMatMul(std::shared_ptr<const Tensor> packed, int64_t depth, int64_t columns, const Operator& op)
      : packed_(std::move(packed)), depth_(depth), columns_(columns), portable_(op.compute) {}

  void Run(OpContext& context) const override {
    const Tensor& a = context.Input(0);
    const Tensor* zero = context.OptionalInput(2);
    if (a.rank() < 1 || a.shape().back() != depth_ || (zero && zero->size() != 1)) return portable_(context);
    int32_t a_zero = ZeroPoints(zero, a.dtype())[0];
    Shape shape = a.shape();
    shape.back() = columns_;
    int64_t rows = a.size() / depth_, padded = PaddedDepth(depth_);
    int32_t* c = context.Output(0, DType::kInt32, shape).MutableData<int32_t>();
    int16_t* wide = ThreadScratch<int16_t>(ScratchUse::kWidenedRows, rows * padded);
    DispatchBytes(a.dtype(), [&](auto tag) {
      auto* from = a.Data<typename decltype(tag)::type>();
      for (int64_t r = 0; r < rows; ++r) {
        int16_t* to = wide + r * padded;
        for (int64_t k = 0; k < depth_; ++k) to[k] = static_cast<int16_t>(int32_t{from[r * depth_ + k]} - a_zero);
        if (padded > depth_) to[depth_] = 0;
      }
    });
    int64_t panels = (columns_ + kInt8PanelWidth - 1) / kInt8PanelWidth;
    int64_t grain = std::max<int64_t>(1, kPieceWork / std::max<int64_t>(1, rows * depth_ * kInt8PanelWidth));
    context.ParallelFor(panels, grain, [&](int64_t first, int64_t last) {
      int64_t column = first * kInt8PanelWidth, count = std::min(columns_, last * kInt8PanelWidth) - column;
      BestInt8Kernels().multiply(wide, rows, depth_, packed_->Data<int16_t>() + column * padded, count, c + column,
                                 columns_);
    });
  }

 private:
  std::shared_ptr<const Tensor> packed_;
  int64_t depth_, columns_;
  void (*portable_)(OpContext&);
};

Tensor PackWeight(const Tensor& weight, const std::vector<int32_t>& zeros) {
  int64_t depth = weight.dim(0), columns = weight.dim(1);
  Tensor packed = Tensor::Zeros(DType::kInt16, {PackedInt8Size(depth, columns)});
  auto* to = packed.MutableData<int16_t>();
  DispatchBytes(weight.dtype(), [&](auto tag) {
    auto* from = weight.Data<typename decltype(tag)::type>();
    for (int64_t n = 0; n < columns; ++n) {
      int32_t zero = zeros[zeros.size() == 1 ? 0 : static_cast<size_t>(n)];
      int16_t* column = to + PackedInt8Index(depth, 0, n);
      for (int64_t k = 0; k < depth; ++k)
        column[k / 2 * 2 * kInt8PanelWidth + k % 2] = static_cast<int16_t>(int32_t{from[k * columns + n]} - zero);
    }
  });
  return packed;
}

std::unique_ptr<Kernel> MakeIntegerMatMul(const KernelRequest& request) {
  if (request.inputs.size() < 2 || !request.inputs[0] || !request.inputs[1]) return nullptr;
  auto is_byte = [](DType type) { return type == DType::kInt8 || type == DType::kUInt8; };
  const std::optional<Tensor>& weight = request.inputs[1]->constant;
  if (!weight || weight->rank() != 2 || weight->size() == 0 || !is_byte(weight->dtype())) return nullptr;
  if (!is_byte(request.inputs[0]->type.dtype)) return nullptr;
  const ValueFacts* zero = request.inputs.size() > 3 ? request.inputs[3] : nullptr;
  if (zero && (!zero->constant || zero->constant->dtype() != weight->dtype() || zero->constant->size() == 0))
    return nullptr;
  std::vector<int32_t> zeros = ZeroPoints(zero ? &*zero->constant : nullptr, weight->dtype());
  if (zeros.size() != 1 && static_cast<int64_t>(zeros.size()) != weight->dim(1)) return nullptr;
  std::string form = "16-bit pairs";
  for (int32_t value : zeros) (form += ' ') += std::to_string(value);
  auto packed = request.weights.Get<Tensor>(*weight, form, [&] { return PackWeight(*weight, zeros); });
  return std::make_unique<IntegerMatMul>(std::move(packed), weight->dim(0), weight->dim(1), request.op);
}

class DynamicQuantize final : public Kernel {
 public:
  void Run(OpContext& context) const override {
    constexpr float kLargest = 255;
    constexpr int64_t kGrain = 32768;
    const Int8Kernels& kernels = BestInt8Kernels();
    const Tensor& x = context.Input(0);
    const float* values = x.Data<float>();
    float low = 0, high = 0;
    kernels.range(values, x.size(), &low, &high);
    // All zeros have no range; any scale gives them back.
    float scale = high == low ? 1.0f : (high - low) / kLargest, zero = -low / scale;
    zero = !(zero > 0) ? 0 : std::nearbyint(std::min(zero, kLargest));
    uint8_t* y = context.Output(0, DType::kUInt8, x.shape()).MutableData<uint8_t>();
    context.ParallelFor(x.size(), kGrain, [&](int64_t first, int64_t last) {
      kernels.quantize(values + first, last - first, scale, zero, y + first);
    });
    *context.Output(1, DType::kFloat, {}).MutableData<float>() = scale;
    *context.Output(2, DType::kUInt8, {}).MutableData<uint8_t>() = static_cast<uint8_t>(zero);
  }
};

}  // namespace

std::unique_ptr<Kernel> MakeIntegerKernel(const KernelRequest& request) {
  if (!CanonicalDomain(request.node.domain).empty()) return nullptr;
  if (request.node.op_type == "MatMulInteger") return MakeIntegerMatMul(request);
  if (request.node.op_type == "DynamicQuantizeLinear" && request.inputs[0] &&
      request.inputs[0]->type.dtype == DType::kFloat)
    return std::make_unique<DynamicQuantize>();
  return nullptr;
}

}  // namespace ferry
