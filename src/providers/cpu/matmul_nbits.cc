// Products with constant weights of 4 or 8 bits in blocks: MatMulNBits, and BlockedMatMul, which stands for
// DequantizeLinear and a product.
#include <algorithm>

#include "kernels/nbits_gemm.h"
#include "ops/support/blocked_matmul.h"
#include "ops/support/widen.h"
#include "providers/cpu/cuts.h"
#include "providers/cpu/kernels.h"
#include "providers/cpu/scratch.h"

namespace ferry {
namespace {

using SharedTensor = std::shared_ptr<const Tensor>;

// A block's sums of bytes stay within 32 bits.
constexpr int64_t kLargestByteBlock = 1 << 15;

struct PackedNbits {
  NbitsMatrix form;  // without what it points at
  SharedTensor words, scales, zeros;

  NbitsMatrix matrix() const {
    NbitsMatrix whole = form;
    whole.words = words->Data<uint32_t>();
    whole.scales = scales->Data<float>();
    if (zeros) whole.zeros = zeros->Data<int8_t>();
    return whole;
  }
};

class NbitsMatMul final : public CpuKernel {
 public:
  NbitsMatMul(PackedNbits packed, size_t bias_input, bool by_bytes, void (*portable)(OpContext&))
      : packed_(std::move(packed)), bias_input_(bias_input), by_bytes_(by_bytes), portable_(portable) {}

  std::string name() const override { return Cat("packed ", packed_.form.bits, "-bit gemm", by_bytes_ ? " int8" : ""); }

  void Run(OpContext& context) const override {
    const Tensor& a = context.Input(0);
    const NbitsMatrix& form = packed_.form;
    const Tensor* bias = context.OptionalInput(bias_input_);
    if (a.rank() < 1 || a.shape().back() != form.depth || (bias && bias->size() != form.columns))
      return portable_(context);
    Shape shape = a.shape();
    shape.back() = form.columns;
    Call call{.context = context,
              .matrix = packed_.matrix(),
              .a = a.Data<float>(),
              .rows = a.size() / form.depth,
              .bias = bias ? bias->Data<float>() : nullptr};
    call.y = context.Output(0, DType::kFloat, shape).MutableData<float>();
    if (call.rows == 0) return;
    if (by_bytes_)
      MultiplyBytes(call);
    else if (call.rows == 1)
      MultiplyRow(call);
    else
      MultiplyRows(call);
  }

 private:
  struct Call {
    OpContext& context;
    NbitsMatrix matrix;
    const float* a;
    int64_t rows;
    const float* bias;
    float* y = nullptr;

    NbitsPart Part(int64_t column, int64_t count) const {
      return {column / kNbitsPanel, (count + kNbitsPanel - 1) / kNbitsPanel, count, bias ? bias + column : nullptr};
    }
  };

  static void MultiplyRow(const Call& call) {
    const NbitsMatrix& m = call.matrix;
    float* a = ThreadScratch<float>(ScratchUse::kNbitsRows, m.padded() + m.blocks);
    float* sums = a + m.padded();
    std::copy_n(call.a, m.depth, a);
    std::fill(a + m.depth, sums, 0.0f);
    for (int64_t at = 0; at < m.blocks; ++at) {
      float sum = 0;
      for (int64_t k = 0; k < m.block; ++k) sum += a[at * m.block + k];
      sums[at] = sum;
    }
    ForColumns(call.context, m.columns, PanelsOfPiece(1, m.depth), [&](int64_t column, int64_t count) {
      BestNbitsKernels().row(m, call.Part(column, count), a, sums, call.y + column);
    });
  }

  // A few panels at a time become floats, which stay in the cache while all rows pass by. Where a whole tile of panels
  // would not, a chunk of the depth does, and sums pass through the result.
  static void MultiplyRows(const Call& call) {
    constexpr int64_t kMostDepth = 832;
    const NbitsMatrix& m = call.matrix;
    const int64_t chunks = (m.blocks * m.block + kMostDepth - 1) / kMostDepth;
    const int64_t chunk_depth = std::min(m.depth, (m.blocks + chunks - 1) / chunks * m.block);
    const int64_t panels = m.panels(), threads = ThreadsOf(call.context), most = PanelsOnTheWay(chunk_depth);
    const int64_t grain = std::max(
        {PanelsOfPiece(call.rows, m.depth), LeastOfPiece(call.context, panels), std::min(panels / threads, most)});
    ForColumns(call.context, m.columns, grain, [&](int64_t first, int64_t width) {
      const int64_t step = most * kNbitsPanel;
      float* floats = ThreadScratch<float>(ScratchUse::kPanels, PackedSize(chunk_depth, std::min(width, step)));
      for (int64_t column = first; column < first + width; column += step)
        for (int64_t depth = 0; depth < m.depth; depth += chunk_depth)
          MultiplyChunk(call, column, std::min(step, first + width - column), depth,
                        std::min(chunk_depth, m.depth - depth), floats);
    });
  }

  static void MultiplyChunk(const Call& call, int64_t column, int64_t columns, int64_t depth, int64_t depths,
                            float* floats) {
    const NbitsMatrix& m = call.matrix;
    call.context.CheckCancelled();
    for (int64_t n = 0; n < columns; n += kNbitsPanel)
      BestNbitsKernels().widen(m, (column + n) / kNbitsPanel, depth, depths, floats + n * depths);
    GemmEpilogue epilogue;
    float* y = call.y + column;
    if (depth > 0)
      epilogue.residual = y, epilogue.residual_stride = m.columns;
    else if (call.bias)
      epilogue.bias = call.bias + column;
    BestGemmKernels().plain(call.a + depth, m.depth, call.rows, depths, floats, columns, y, m.columns, epilogue);
  }

  static void MultiplyBytes(const Call& call) {
    const NbitsMatrix& m = call.matrix;
    const NbitsByteKernels& kernels = *BestNbitsByteKernels();
    const int64_t row_bytes = m.padded() + m.blocks * 8;
    auto* numbers = ThreadScratch<int8_t>(ScratchUse::kNbitsRows, call.rows * row_bytes);
    auto* scales = reinterpret_cast<float*>(numbers + call.rows * m.padded());
    auto* sums = reinterpret_cast<int32_t*>(scales + call.rows * m.blocks);
    call.context.ParallelFor(call.rows, 1 + (1 << 15) / m.depth, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        kernels.quantize(m, call.a + i * m.depth, numbers + i * m.padded(), scales + i * m.blocks, sums + i * m.blocks);
    });
    const NbitsRows rows{call.rows, numbers, scales, sums};
    const int64_t grain = std::max(PanelsOfPiece(call.rows, m.depth), LeastOfPiece(call.context, m.panels()));
    ForColumns(call.context, m.columns, grain, [&](int64_t column, int64_t count) {
      call.context.CheckCancelled();
      auto* bytes = ThreadScratch<uint8_t>(ScratchUse::kPanels, 2 * kNbitsPanel * m.padded());
      kernels.multiply(m, call.Part(column, count), rows, call.y + column, m.columns, bytes);
    });
  }

  PackedNbits packed_;
  size_t bias_input_;
  bool by_bytes_;
  void (*portable_)(OpContext&);
};

std::string FormName(const char* what, const NbitsMatrix& form, const char* layout) {
  return Cat(what, " of ", form.bits, " bits, ", form.depth, " by ", form.columns, " in blocks of ", form.block,
             layout);
}

// `value(column, block)` as T, kept for the tensor it comes from.
template <class T, class Value>
SharedTensor PackBlocks(const CpuKernelRequest& request, const Tensor& from, const char* what, const char* layout,
                        const NbitsMatrix& form, Value value) {
  constexpr DType type = std::is_same_v<T, float> ? DType::kFloat : DType::kInt8;
  return request.weights.GetTensor(
      from, FormName(what, form, layout), type, form.panels() * form.blocks * kNbitsPanel,
      [form, value](Tensor& made) { PackNbitsBlocks(form, value, made.MutableData<T>()); });
}

bool IsFloat(const ValueFacts* facts) { return facts && facts->type.dtype == DType::kFloat; }

std::optional<PackedNbits> PackMatMulNBits(const CpuKernelRequest& request) {
  const Node& node = request.node;
  const Tensor *b = ConstantOf(request, 1), *scales = ConstantOf(request, 2), *zeros = ConstantOf(request, 3);
  NbitsMatrix form{.depth = node.Int("K", 0), .columns = node.Int("N", 0), .bits = node.Int("bits", 4)};
  form.block = node.Int("block_size", 0);
  const bool is_usual = (form.bits == 4 || form.bits == 8) && form.block >= 16 && form.block <= (1 << 20) &&
                        (form.block & (form.block - 1)) == 0 && form.depth > 0 && form.columns > 0 &&
                        form.depth < (int64_t{1} << 31) && form.columns < (int64_t{1} << 31) && !node.HasInput(4) &&
                        node.Int("weight_prepacked", 0) == 0;
  if (!is_usual || !b || !scales || (node.HasInput(3) && !zeros)) return std::nullopt;
  form.blocks = (form.depth + form.block - 1) / form.block;
  const int64_t row_bytes = form.padded() * form.bits / 8, zero_bytes = (form.blocks * form.bits + 7) / 8;
  if (b->dtype() != DType::kUInt8 || b->size() / row_bytes != form.columns || b->size() % row_bytes != 0 ||
      scales->dtype() != DType::kFloat || scales->size() != form.columns * form.blocks ||
      (zeros && (zeros->dtype() != DType::kUInt8 || zeros->size() != form.columns * zero_bytes)))
    return std::nullopt;
  PackedNbits packed{.form = form};
  packed.words =
      request.weights.GetTensor(*b, FormName("words", form, ""), DType::kUInt32, form.panels() * form.panel_words(),
                                [=, rows = *b](Tensor& made) {
                                  PackNbitsRows(rows.Data<uint8_t>(), row_bytes, form, made.MutableData<uint32_t>());
                                });
  packed.scales = PackBlocks<float>(
      request, *scales, "scales", "", form,
      [form, from = *scales](int64_t n, int64_t at) { return from.Data<float>()[n * form.blocks + at]; });
  if (zeros)
    packed.zeros = PackBlocks<int8_t>(request, *zeros, "zeros", "", form,
                                      [form, zero_bytes, from = *zeros](int64_t n, int64_t at) {
                                        const int64_t per_byte = 8 / form.bits;
                                        const int byte = from.Data<uint8_t>()[n * zero_bytes + at / per_byte];
                                        const int zero = byte >> (at % per_byte * form.bits) & ((1 << form.bits) - 1);
                                        return static_cast<int8_t>(zero - (1 << (form.bits - 1)));
                                      });
  return packed;
}

std::optional<PackedNbits> PackBlockedMatMul(const CpuKernelRequest& request) {
  const Tensor *w = ConstantOf(request, 1), *scales = ConstantOf(request, 2), *zeros = ConstantOf(request, 3);
  if (!w || !scales || (request.node.HasInput(3) && !zeros)) return std::nullopt;
  const BlockedWeights weights(request.node, *w, *scales, zeros);
  NbitsMatrix form{.depth = weights.depth, .columns = weights.columns, .bits = weights.bits};
  form.block = weights.block;
  form.blocks = weights.blocks;
  const char* layout = weights.transposed ? ", transposed" : "";
  PackedNbits packed{.form = form};
  packed.words = request.weights.GetTensor(
      *w, FormName("words", form, layout), DType::kUInt32, form.panels() * form.panel_words(), [=](Tensor& made) {
        PackNbits(
            form, [&](int64_t n, int64_t k) { return weights.Number(n, k); }, made.MutableData<uint32_t>());
      });
  packed.scales = PackBlocks<float>(request, *scales, "scales", layout, form,
                                    [weights](int64_t n, int64_t at) { return weights.Scale(n, at); });
  if (weights.HasZeros())
    packed.zeros = PackBlocks<int8_t>(request, zeros ? *zeros : *scales, "zeros", layout, form,
                                      [weights](int64_t n, int64_t at) { return weights.Zero(n, at); });
  return packed;
}

}  // namespace

std::unique_ptr<CpuKernel> MakeNbitsMatMulKernel(const CpuKernelRequest& request) {
  const Node& node = request.node;
  const bool is_blocked = node.op_type == "BlockedMatMul" && node.domain == kInternalDomain;
  const bool is_nbits = node.op_type == "MatMulNBits" && node.domain == kMicrosoftDomain;
  if ((!is_blocked && !is_nbits) || request.inputs.size() < 3 || !IsFloat(request.inputs[0])) return nullptr;
  const size_t bias = is_blocked ? 4 : 5;
  if (node.HasInput(bias) && !IsFloat(request.inputs[bias])) return nullptr;
  std::optional<PackedNbits> packed = is_blocked ? PackBlockedMatMul(request) : PackMatMulNBits(request);
  if (!packed) return nullptr;
  // Level 4 allows rows to become bytes.
  const NbitsByteKernels* bytes = BestNbitsByteKernels();
  const bool by_bytes = is_nbits && node.Int("accuracy_level", 0) == 4 && !request.policy.exact && bytes &&
                        (packed->form.bits == 4 || bytes->takes_8_bits) && packed->form.block <= kLargestByteBlock;
  return std::make_unique<NbitsMatMul>(std::move(*packed), bias, by_bytes, request.op.compute);
}

}  // namespace ferry
