// Products of bytes with a constant 8-bit matrix, packed once: MatMulInteger, DynamicMatMul and QuantizedMatMul.
#include <algorithm>

#include "ops/support/fused.h"
#include "ops/support/quantized.h"
#include "providers/cpu/cuts.h"
#include "providers/cpu/int8_product.h"
#include "providers/cpu/kernels.h"
#include "providers/cpu/scratch.h"

namespace ferry {
namespace {

class QuantizedMatMul final : public CpuKernel {
 public:
  std::string name() const override { return "packed gemm int8"; }
  QuantizedMatMul(Int8Weights weights, Int8Finish finish, void (*portable)(OpContext&))
      : weights_(std::move(weights)), finish_(std::move(finish)), portable_(portable) {}

  void Run(OpContext& context) const override {
    const Tensor& a = context.Input(0);
    const int64_t depth = weights_.shape.depth;
    if (a.rank() < 1 || a.shape().back() != depth) return portable_(context);
    Shape shape = a.shape();
    shape.back() = weights_.shape.columns;
    void* y = context.Output(0, finish_.step().y_type, shape).mutable_raw();
    ForInt8Parts(context, weights_, finish_, [&](const Int8Part& part) {
      ForInt8Blocks(context, part.shape, a.size() / depth,
                    [&](const Int8Block& block) { Multiply(BytesOf(a), part, block, y); });
    });
  }

 private:
  void Multiply(const uint8_t* a, const Int8Part& part, const Int8Block& block, void* y) const {
    const auto [groups, depth, columns] = weights_.shape;
    const int64_t first = block.first * kInt8PanelWidth, column = part.first + first;
    const void* ready = PrepareRows(a + block.row * depth, finish_.flip(), block.rows, depth);
    Int8Product product{ready, block.rows, depth};
    product.is_signed = finish_.has_signed_rows();
    product.scratch = Int8Scratch(block.rows, depth);
    product.packed = part.PanelsOf(0, column);
    product.columns = std::min(part.shape.columns, block.last * kInt8PanelWidth) - first;
    product.out = finish_.Output(finish_.At(y, block.row * columns + column), columns, column, part.offsets + first);
    BestInt8Kernels().multiply(product);
  }

  Int8Weights weights_;
  Int8Finish finish_;
  void (*portable_)(OpContext&);
};

std::unique_ptr<CpuKernel> MakeQuantizedMatMul(const CpuKernelRequest& request) {
  if (request.inputs.size() < 3 || !request.inputs[0]) return nullptr;
  for (size_t i = 1; i < request.inputs.size(); ++i)
    if (request.inputs[i] ? !request.inputs[i]->constant : i < 3) return nullptr;
  const Tensor& weight = *request.inputs[1]->constant;
  DType type = request.inputs[0]->type.dtype;
  if (weight.rank() != 2 || weight.size() == 0 || weight.dtype() != DType::kInt8 || !IsByte(type)) return nullptr;
  bool turned = request.node.Int("transB", 0) != 0;
  int64_t columns = weight.dim(turned ? 0 : 1);
  const Tensor& factor = *request.inputs[2]->constant;
  const Tensor* bias = request.inputs.size() > 3 && request.inputs[3] ? &*request.inputs[3]->constant : nullptr;
  if (factor.size() != columns || (bias && bias->size() != columns)) return nullptr;
  Int8Weights packed = turned ? PackInt8Lines(weight, 1, 1, request.weights) : PackInt8Rows(weight, 0, request.weights);
  Int8Finish finish(Int8Finish::Of::kProduct, QuantizedStep::Read(request.node), type, factor, bias, columns);
  return std::make_unique<QuantizedMatMul>(std::move(packed), std::move(finish), request.op.compute);
}

// Both zero points may be any: (a - a0) · (w - w0) = a · w - a0 · Σw - w0 · Σa + depth · a0 · w0.
// With scales the sums become floats.
class IntegerMatMul final : public CpuKernel {
 public:
  std::string name() const override { return "packed gemm int8"; }
  IntegerMatMul(const Tensor& weight, uint8_t flip, std::vector<int32_t> zeros, const CpuKernelRequest& request)
      : weights_(PackInt8Rows(weight, flip, request.weights)), zeros_(std::move(zeros)), portable_(request.op.compute) {
    zeros_.resize(zeros_.size() == 1 ? static_cast<size_t>(shape_.columns) : zeros_.size(), zeros_[0]);
    has_zeros_ = std::any_of(zeros_.begin(), zeros_.end(), [](int32_t zero) { return zero != 0; });
    zeros_.resize(zeros_.size() + kInt8PanelWidth);
  }

  void MakeFloats(const Tensor* w_scale, const Tensor* bias) {
    is_float_ = true;
    scales_ = Spread(w_scale, 1.0f);
    if (bias) bias_ = Spread(bias, 0.0f);
  }

  void Run(OpContext& context) const override {
    const Tensor& a = context.Input(0);
    const Tensor* zero = context.OptionalInput(2);
    const int64_t depth = shape_.depth, columns = shape_.columns;
    if (a.rank() < 1 || a.shape().back() != depth || (zero && zero->size() != 1)) return portable_(context);
    Shape shape = a.shape();
    shape.back() = columns;
    Call call{BytesOf(a), FlipOf(a.dtype()), ZeroPoints(zero, a.dtype())[0] + FlipOf(a.dtype())};
    call.y = context.Output(0, is_float_ ? DType::kFloat : DType::kInt32, shape).mutable_raw();
    const int64_t padded = columns + kInt8PanelWidth;
    auto* offset = ThreadScratch<int32_t>(ScratchUse::kPaddedImage, 2 * padded);
    auto* factor = reinterpret_cast<float*>(offset + padded);
    if (is_float_) {
      const float scale = *context.Input(4).Data<float>();
      for (int64_t n = 0; n < padded; ++n) factor[n] = scale * scales_[static_cast<size_t>(n)];
      call.factor = factor;
    }
    const Tensor* packed = weights_.packed.Find();
    if (packed) TakeOff(call.zero_of_rows(), SumsBehind(*packed, columns), columns, offset);
    ForInt8Blocks(context, shape_, a.size() / depth, [&](const Int8Block& block) {
      const uint8_t* rows = call.a + block.row * depth;
      const void* ready = PrepareRows(rows, call.flip_of_rows(), block.rows, depth);
      if (has_zeros_) RowTerms(rows, call.flip, block.rows, call.a_zero);
      const int64_t column = block.first * kInt8PanelWidth;
      if (!packed) return MultiplyOnTheWay(call, block, ready);
      Multiply(call, block, ready, packed->Data<int8_t>() + column * PaddedDepth(depth), offset + column);
    });
  }

 private:
  struct Call {
    const uint8_t* a;
    uint8_t flip;
    int32_t a_zero;
    void* y = nullptr;
    const float* factor = nullptr;  // null: sums are wanted

    // As the product's rows have them.
    bool is_signed = ShouldBeSigned(a_zero);
    uint8_t flip_of_rows() const { return is_signed ? flip ^ kSignFlip : flip; }
    int32_t zero_of_rows() const { return is_signed ? a_zero - kSignFlip : a_zero; }
  };

  // What the zero point of A has added to sums; nothing beyond their end.
  static void TakeOff(int32_t a_zero, const int32_t* sums, int64_t count, int32_t* offset) {
    for (int64_t n = 0; n < count; ++n)
      offset[n] = static_cast<int32_t>(-static_cast<uint32_t>(a_zero) * static_cast<uint32_t>(sums[n]));
    std::fill_n(offset + count, kInt8PanelWidth, 0);
  }

  // With the block's panels and offsets.
  void Multiply(const Call& call, const Int8Block& block, const void* ready, const int8_t* panels,
                const int32_t* offset) const {
    const int64_t column = block.first * kInt8PanelWidth;
    Int8Product product{ready, block.rows, shape_.depth};
    product.is_signed = call.is_signed;
    product.scratch = Int8Scratch(block.rows, shape_.depth);
    product.packed = panels;
    product.columns = std::min(shape_.columns, block.last * kInt8PanelWidth) - column;
    Int8Output& out = product.out;
    out.stride = shape_.columns;
    out.c = static_cast<int32_t*>(call.y) + block.row * shape_.columns + column;  // as long as a float
    out.offset = offset;
    if (call.factor) {
      out.kind = Int8Output::Kind::kFloats;
      out.factor = call.factor + column;
    }
    if (!bias_.empty()) out.shift = bias_.data() + column;
    if (has_zeros_) {
      out.row_term = ThreadScratch<int32_t>(ScratchUse::kRowPointers, block.rows);
      out.column_term = zeros_.data() + column;
    }
    BestInt8Kernels().multiply(product);
  }

  void MultiplyOnTheWay(const Call& call, const Int8Block& block, const void* ready) const {
    // A quarter of the bytes that floats have, and pieces of rows twice as long to read.
    const int64_t step = std::min(PanelsOnTheWay(PaddedDepth(shape_.depth) / 8), block.last - block.first);
    const int64_t width = step * kInt8PanelWidth, size = PackedInt8Size(shape_.depth, width);
    auto* panels = ThreadScratch<int8_t>(ScratchUse::kPanels, size + (2 * width + kInt8PanelWidth) * 4);
    auto* sums = reinterpret_cast<int32_t*>(panels + size);
    for (Int8Block part = block; part.first < block.last; part.first += step) {
      part.last = std::min(block.last, part.first + step);
      const int64_t column = part.first * kInt8PanelWidth;
      const int64_t count = std::min(shape_.columns, part.last * kInt8PanelWidth) - column;
      weights_.pack(column, count, panels, sums);
      TakeOff(call.zero_of_rows(), sums, count, sums + width);
      Multiply(call, part, ready, panels, sums + width);
    }
  }

  std::vector<float> Spread(const Tensor* values, float otherwise) const {
    std::vector<float> spread(static_cast<size_t>(shape_.columns + kInt8PanelWidth), otherwise);
    for (int64_t n = 0; values && n < shape_.columns; ++n)
      spread[static_cast<size_t>(n)] = values->Data<float>()[values->size() == 1 ? 0 : n];
    return spread;
  }

  // depth · a0 - Σa of each row, in this thread's scratch memory.
  void RowTerms(const uint8_t* a, uint8_t flip, int64_t rows, int32_t a_zero) const {
    int32_t* terms = ThreadScratch<int32_t>(ScratchUse::kRowPointers, rows);
    for (int64_t i = 0; i < rows; ++i) {
      uint32_t sum = 0;
      for (int64_t k = 0; k < shape_.depth; ++k) sum += static_cast<uint8_t>(a[i * shape_.depth + k] ^ flip);
      terms[i] = static_cast<int32_t>(static_cast<uint32_t>(shape_.depth) * static_cast<uint32_t>(a_zero) - sum);
    }
  }

  Int8Weights weights_;
  const Int8Shape shape_ = weights_.shape;
  std::vector<int32_t> zeros_;  // per column, of the weights as packed
  bool has_zeros_ = false, is_float_ = false;
  std::vector<float> scales_, bias_;
  void (*portable_)(OpContext&);
};

std::unique_ptr<CpuKernel> MakeIntegerMatMul(const CpuKernelRequest& request) {
  if (request.inputs.size() < 2 || !request.inputs[0] || !request.inputs[1]) return nullptr;
  const std::optional<Tensor>& weight = request.inputs[1]->constant;
  if (!weight || weight->rank() != 2 || weight->size() == 0 || !IsByte(weight->dtype())) return nullptr;
  if (!IsByte(request.inputs[0]->type.dtype)) return nullptr;
  const ValueFacts* zero = request.inputs.size() > 3 ? request.inputs[3] : nullptr;
  if (zero && (!zero->constant || zero->constant->dtype() != weight->dtype() || zero->constant->size() == 0))
    return nullptr;
  for (size_t i = 5; i < request.inputs.size(); ++i) {
    const ValueFacts* values = request.inputs[i];
    if (values && (!values->constant || values->constant->dtype() != DType::kFloat ||
                   (values->constant->size() != 1 && values->constant->size() != weight->dim(1))))
      return nullptr;
  }
  std::vector<int32_t> zeros = ZeroPoints(zero ? &*zero->constant : nullptr, weight->dtype());
  if (zeros.size() != 1 && static_cast<int64_t>(zeros.size()) != weight->dim(1)) return nullptr;
  // Unsigned weights are packed as signed ones, 128 lower.
  uint8_t flip = weight->dtype() == DType::kUInt8 ? kSignFlip : uint8_t{0};
  for (int32_t& value : zeros) value -= flip;
  auto kernel = std::make_unique<IntegerMatMul>(*weight, flip, std::move(zeros), request);
  if (request.node.op_type == "MatMulInteger") return kernel;
  auto per_column = [&](size_t i) -> const Tensor* {
    return i < request.inputs.size() && request.inputs[i] ? &*request.inputs[i]->constant : nullptr;
  };
  kernel->MakeFloats(per_column(5), per_column(6));
  return kernel;
}

}  // namespace

std::unique_ptr<CpuKernel> MakeIntegerProductKernel(const CpuKernelRequest& request) {
  if (request.node.op_type == "MatMulInteger" && CanonicalDomain(request.node.domain).empty())
    return MakeIntegerMatMul(request);
  if (request.node.op_type == "DynamicMatMul" && request.node.domain == kInternalDomain)
    return MakeIntegerMatMul(request);
  if (request.node.op_type == "QuantizedMatMul" && request.node.domain == kInternalDomain)
    return MakeQuantizedMatMul(request);
  return nullptr;
}

}  // namespace ferry
