// Between floats and bytes with one scale: QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.
#include <algorithm>
#include <cmath>

#include "ops/support/quantized_step.h"
#include "providers/cpu/kernels.h"

namespace ferry {
namespace {

constexpr int64_t kGrain = 32768;

class DynamicQuantize final : public CpuKernel {
 public:
  std::string name() const override { return "quantize"; }
  void Run(OpContext& context) const override {
    constexpr float kLargest = 255;
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
      kernels.quantize(values + first, last - first, scale, zero, 0, y + first);
    });
    *context.Output(1, DType::kFloat, {}).MutableData<float>() = scale;
    *context.Output(2, DType::kUInt8, {}).MutableData<uint8_t>() = static_cast<uint8_t>(zero);
  }
};

class WholeQuantize final : public CpuKernel {
 public:
  std::string name() const override { return "quantize"; }
  WholeQuantize(DType type, float scale, int32_t zero) : type_(type), scale_(scale), zero_(zero) {}

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    uint8_t flip = FlipOf(type_);
    uint8_t* y = MutableBytesOf(context.Output(0, type_, x.shape()));
    context.ParallelFor(x.size(), kGrain, [&](int64_t first, int64_t last) {
      BestInt8Kernels().quantize(x.Data<float>() + first, last - first, scale_, static_cast<float>(zero_ + flip), flip,
                                 y + first);
    });
  }

 private:
  DType type_;
  float scale_;
  int32_t zero_;
};

class WholeDequantize final : public CpuKernel {
 public:
  std::string name() const override { return "dequantize"; }
  WholeDequantize(float scale, int32_t zero) : scale_(scale), zero_(zero) {}

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    uint8_t flip = FlipOf(x.dtype());
    float* y = context.Output(0, DType::kFloat, x.shape()).MutableData<float>();
    context.ParallelFor(x.size(), kGrain, [&](int64_t first, int64_t last) {
      BestInt8Kernels().dequantize(BytesOf(x) + first, last - first, scale_, zero_ + flip, flip, y + first);
    });
  }

 private:
  float scale_;
  int32_t zero_;
};

// One constant scale and zero point of a byte type, no other type in between.
std::unique_ptr<CpuKernel> MakeWhole(const CpuKernelRequest& request, bool quantizes) {
  if (request.inputs.size() < 2 || request.outputs.empty() || !request.inputs[0] || !request.inputs[1] ||
      !request.outputs[0])
    return nullptr;
  const std::optional<Tensor>& scale = request.inputs[1]->constant;
  const ValueFacts* zero = request.inputs.size() > 2 ? request.inputs[2] : nullptr;
  DType bytes = (quantizes ? request.outputs[0] : request.inputs[0])->type.dtype;
  DType floats = (quantizes ? request.inputs[0] : request.outputs[0])->type.dtype;
  if (!scale || scale->size() != 1 || scale->dtype() != DType::kFloat || !IsByte(bytes) || floats != DType::kFloat)
    return nullptr;
  if (zero && (!zero->constant || zero->constant->size() != 1 || zero->constant->dtype() != bytes)) return nullptr;
  if (request.node.Int("block_size", 0) != 0 || request.node.Int("precision", 0) > 1) return nullptr;
  // A scale with an axis of its own is checked against that axis.
  if (scale->rank() > 0) {
    const Type& type = request.inputs[0]->type;
    int64_t rank = type.shape ? static_cast<int64_t>(type.shape->size()) : -1, axis = request.node.Int("axis", 1);
    if (rank < 0 || scale->rank() > 1 || axis < -rank || axis >= rank) return nullptr;
  }
  int32_t point = zero ? ByteAt(*zero->constant, 0) : 0;
  if (quantizes) return std::make_unique<WholeQuantize>(bytes, *scale->Data<float>(), point);
  return std::make_unique<WholeDequantize>(*scale->Data<float>(), point);
}

}  // namespace

std::unique_ptr<CpuKernel> MakeQuantizeKernel(const CpuKernelRequest& request) {
  if (!CanonicalDomain(request.node.domain).empty()) return nullptr;
  const std::string& op = request.node.op_type;
  if (op == "QuantizeLinear" || op == "DequantizeLinear") return MakeWhole(request, op == "QuantizeLinear");
  if (op == "DynamicQuantizeLinear" && !request.inputs.empty() && request.inputs[0] &&
      request.inputs[0]->type.dtype == DType::kFloat)
    return std::make_unique<DynamicQuantize>();
  return nullptr;
}

}  // namespace ferry
